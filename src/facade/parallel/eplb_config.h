// --eplb-config: how whole experts are distributed among ranks by load. The keys are vLLM's.
//
//   {"window_size": 1000, "step_interval": 3000, "num_redundant_experts": 32}
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "exec/balancing/expert_balance_options.h"

namespace quire {

struct EplbConfig {
  ExpertBalanceOptions balance = {.is_enabled = true};
  int32_t num_redundant_experts = 0;  // per layer
};

// Parses `text`; an empty text gives the defaults, which are vLLM's. kInvalidArgument names the key
// and says what was expected.
Result<EplbConfig> parse_eplb_config(std::string_view text);

}  // namespace quire
