// Request bodies: bounded JSON, and short names for what was found where something else was
// expected.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "server/http/api_error.h"
#include "server/http/server_options.h"

namespace quire::server {

// A value nested at most max_depth deep; valid UTF-8 throughout. Duplicate keys: the last one
// counts.
Result<boost::json::value> parse_json(std::string_view text, uint32_t max_depth);
// The body of a POST: content type application/json, an object, within the limits.
ApiResult<boost::json::object> parse_body(const HttpRequest& request, const ServerLimits& limits);

// At least the memory that `text` takes as a parsed value, for any text, valid or not: its bytes,
// and what each value, name, list and object adds. Known before anything is allocated. O(text).
uint64_t parsed_bytes_bound(std::string_view text);

// Memory that the value takes, nearly.
uint64_t memory_bytes(const boost::json::value& value);

// "null", "true", "a string", "the number 3", "a list of 4", "an object": for error messages.
std::string describe(const boost::json::value& value);

}  // namespace quire::server
