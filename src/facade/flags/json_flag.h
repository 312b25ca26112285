// Flags whose value is a JSON object, as in vLLM (--kv-transfer-config '{…}').
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "base/result.h"

namespace quire {

// Parses the value. kInvalidArgument names the flag and says what came.
Result<boost::json::object> parse_json_flag(std::string_view flag, std::string_view text);

}  // namespace quire
