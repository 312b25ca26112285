#include "sched/stop_check.h"

#include <algorithm>

namespace quire {
namespace {

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

StopDecision check_stop(const Request& request, int32_t max_model_len) {
  const SamplingParams& params = *request.params;
  if (stops_on_tokens(params) && request.num_output_tokens() >= params.min_tokens &&
      request.num_output_tokens() > 0) {
    const TokenId last = request.token_ids.back();
    if (!params.ignore_eos && contains(params.eos_token_ids, last)) {
      return {.finished = RequestStatus::kFinishedStopped, .stop_token_id = std::nullopt};
    }
    if (contains(params.stop_token_ids, last)) {
      return {.finished = RequestStatus::kFinishedStopped, .stop_token_id = last};
    }
  }
  if (request.num_output_tokens() >= params.max_tokens || request.num_tokens() >= max_model_len) {
    return {.finished = RequestStatus::kFinishedLength, .stop_token_id = std::nullopt};
  }
  return {};
}

}  // namespace quire
