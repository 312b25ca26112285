// Decides when a request ends because of its tokens. The engine matches stop strings, on text.
#pragma once

#include <optional>

#include "core/request.h"

namespace quire {

struct StopDecision {
  std::optional<RequestStatus> finished;
  std::optional<TokenId> stop_token_id;  // set if one of stop_token_ids ended it
};

// Returns whether any token may end a request with these parameters.
inline bool stops_on_tokens(const SamplingParams& params) {
  return (!params.ignore_eos && !params.eos_token_ids.empty()) || !params.stop_token_ids.empty();
}

// Decides after a token was appended. Below min_tokens no token stops the request; after that EOS,
// stop ids and max_tokens do. The model's length limit always holds.
StopDecision check_stop(const Request& request, int32_t max_model_len);

}  // namespace quire
