#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace quire::server {

// JSON whose numbers are written as people write them: 12.5 where Boost's serializer has 1.25E1.
// For pages that people read; answers with thousands of numbers are serialized by Boost, which is
// faster.
std::string plain_json(const boost::json::value& value);

}  // namespace quire::server
