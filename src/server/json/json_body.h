// These functions parse request bodies as JSON within limits, and name values in error messages.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "server/http/api_error.h"
#include "server/http/server_options.h"

namespace quire::server {

// Parses a value that is nested at most max_depth deep and is valid UTF-8 throughout. Of duplicate
// keys the last one counts.
Result<boost::json::value> parse_json(std::string_view text, uint32_t max_depth);
// Parses the body of a POST: its content type must be application/json, and it must be an object
// within the limits.
ApiResult<boost::json::object> parse_body(const HttpRequest& request, const ServerLimits& limits);

// Returns an upper bound of the memory that `text` takes as a parsed value, for any text, valid or
// not: its bytes, and what each value, name, list and object adds. It allocates nothing and takes
// O(text) time.
uint64_t parsed_bytes_bound(std::string_view text);

// Returns about how much memory the value takes.
uint64_t memory_bytes(const boost::json::value& value);

// Returns "null", "true", "a string", "the number 3", "a list of 4", "an object" and the like, for
// error messages.
std::string describe(const boost::json::value& value);

}  // namespace quire::server
