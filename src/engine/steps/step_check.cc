#include "engine/steps/step_check.h"

namespace quire {

Status check_step_result(const StepPlan& plan, const StepResult& result, int32_t vocab_size) {
  if (result.step_id != plan.step_id) {
    return internal_error("StepResult: expected step {}, got {}", plan.step_id, result.step_id);
  }
  if (result.requests.size() != plan.scheduled.size()) {
    return internal_error("StepResult: expected {} requests, got {}", plan.scheduled.size(),
                          result.requests.size());
  }
  for (size_t i = 0; i < result.requests.size(); ++i) {
    const RequestStepResult& entry = result.requests[i];
    if (entry.id != plan.scheduled[i].id) {
      return internal_error("StepResult: expected request {} in place {}, got {}",
                            plan.scheduled[i].id, i, entry.id);
    }
    if (entry.logprobs.size() > entry.sampled_token_ids.size()) {
      return internal_error("StepResult: expected at most {} logprobs for request {}, got {}",
                            entry.sampled_token_ids.size(), entry.id, entry.logprobs.size());
    }
    for (const TokenId id : entry.sampled_token_ids) {
      if (id >= 0 && id < vocab_size) continue;
      return internal_error("StepResult: expected token ids in [0, {}), got {} for request {}",
                            vocab_size, id, entry.id);
    }
  }
  return {};
}

}  // namespace quire
