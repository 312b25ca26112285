// How long Ollama's clients want a model to stay in memory.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>

#include "server/http/api_error.h"

namespace quire::server {

// Seconds as a number, or a text such as "90", "5m" or "1h30m" (ms, s, m, h). Below 0: for good,
// which is nullopt.
ApiResult<std::optional<int64_t>> parse_keep_alive_us(const boost::json::value& value);

}  // namespace quire::server
