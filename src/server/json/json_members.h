// Members of JSON objects, for readers of bodies and of chunks.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/api_error.h"

namespace quire::server {

// Null where the member is absent or null.
const boost::json::value* find_member(const boost::json::object& object, std::string_view name);
boost::json::value* find_member(boost::json::object& object, std::string_view name);
// Empty where the member is no string.
std::string_view text_member(const boost::json::object& object, std::string_view name);
// 0 where the member is no integer.
int64_t count_member(const boost::json::object& object, std::string_view name);
// Leaves `out` as it is where the member is absent or null. `where` names the member in the error;
// without it, the member's own name does.
ApiCheck read_flag(const boost::json::object& object, std::string_view name, bool& out,
                   std::string_view where = {});
// The same for a string.
ApiCheck read_text(const boost::json::object& object, std::string_view name, std::string& out);

// 400 about the field `where`: what was expected and what came.
ApiError wrong_value(std::string_view where, std::string_view what, const boost::json::value& got);

}  // namespace quire::server
