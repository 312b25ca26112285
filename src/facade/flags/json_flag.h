// Flags whose value is a JSON object, as vLLM has them (--kv-transfer-config '{…}').
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "base/result.h"

namespace quire {

// kInvalidArgument names the flag and what came.
Result<boost::json::object> parse_json_flag(std::string_view flag, std::string_view text);

}  // namespace quire
