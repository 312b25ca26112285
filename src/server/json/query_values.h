// Values of a request's query. Names and values of our routes need no decoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/http/api_error.h"

namespace quire::server {

// nullopt: there is none of this name.
std::optional<std::string_view> query_value(std::string_view query, std::string_view name);
// One in [least, most]; `otherwise` where there is none.
ApiResult<int64_t> query_integer(std::string_view query, std::string_view name, int64_t otherwise,
                                 int64_t least, int64_t most);

}  // namespace quire::server
