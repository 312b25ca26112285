// These functions read values of a request's query. The names and values of Quire's routes need no
// decoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/http/api_error.h"

namespace quire::server {

// Returns the value of `name`; nullopt: the query has none.
std::optional<std::string_view> query_value(std::string_view query, std::string_view name);
// Returns an integer in [least, most], or `otherwise` when the query has none.
ApiResult<int64_t> query_integer(std::string_view query, std::string_view name, int64_t otherwise,
                                 int64_t least, int64_t most);

}  // namespace quire::server
