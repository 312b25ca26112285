// keep_alive is how long a client of Ollama's API wants a model to stay in memory.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>

#include "server/http/api_error.h"

namespace quire::server {

// Reads seconds as a number, or a text such as "90", "5m" or "1h30m" (units ms, s, m, h). A value
// below 0 means forever, which is nullopt.
ApiResult<std::optional<int64_t>> parse_keep_alive_us(const boost::json::value& value);

}  // namespace quire::server
