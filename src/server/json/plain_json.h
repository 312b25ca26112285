#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace quire::server {

// Returns JSON whose numbers are written as people write them: 12.5 where Boost's serializer writes
// 1.25E1. It is for pages that people read. Answers with thousands of numbers are serialized by
// Boost, which is faster.
std::string plain_json(const boost::json::value& value);

}  // namespace quire::server
