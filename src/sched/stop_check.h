// When a request ends because of its tokens. Stop strings are matched on text, by the engine.
#pragma once

#include <optional>

#include "core/request.h"

namespace quire {

struct StopDecision {
  std::optional<RequestStatus> finished;
  std::optional<TokenId> stop_token_id;  // set when one of stop_token_ids ended it
};

// Whether some token may end a request with these parameters.
inline bool stops_on_tokens(const SamplingParams& params) {
  return (!params.ignore_eos && !params.eos_token_ids.empty()) || !params.stop_token_ids.empty();
}

// After a token was appended: below min_tokens nothing stops it; then EOS, stop ids, length. The
// model's length limit holds always.
StopDecision check_stop(const Request& request, int32_t max_model_len);

}  // namespace quire
