// These functions read members of JSON objects, in request bodies and in chunks.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/api_error.h"

namespace quire::server {

// Returns null when the member is absent or null.
const boost::json::value* find_member(const boost::json::object& object, std::string_view name);
boost::json::value* find_member(boost::json::object& object, std::string_view name);
// Returns an empty text when the member is not a string.
std::string_view text_member(const boost::json::object& object, std::string_view name);
// Returns 0 when the member is not an integer.
int64_t count_member(const boost::json::object& object, std::string_view name);
// Reads a bool. `out` stays as it is when the member is absent or null. `where` names the member in
// the error; without it, the error uses the member's own name.
ApiCheck read_flag(const boost::json::object& object, std::string_view name, bool& out,
                   std::string_view where = {});
// Reads a string in the same way.
ApiCheck read_text(const boost::json::object& object, std::string_view name, std::string& out);

// Returns an error with status 400 about the field `where`, with what was expected and what came.
ApiError wrong_value(std::string_view where, std::string_view what, const boost::json::value& got);

}  // namespace quire::server
