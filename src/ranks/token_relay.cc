#include "ranks/token_relay.h"

#include <utility>

namespace quire {

uint64_t TokenRelay::add_step(const StepPlan& plan) {
  ++num_steps_;
  for (const RequestId id : plan.dropped) sent_in_.erase(id);
  for (const NewRequest& request : plan.new_requests) sent_in_[request.id] = num_steps_;
  return num_steps_;
}

void TokenRelay::add_result(uint64_t step, const StepResult& result) {
  for (const RequestStepResult& request : result.requests) {
    const auto sent = sent_in_.find(request.id);
    if (sent == sent_in_.end() || sent->second > step) continue;
    RequestStepResult& kept = kept_.requests.emplace_back();
    kept.id = request.id;
    kept.status = request.status;
    kept.sampled_token_ids = request.sampled_token_ids;
  }
}

const StepResult& TokenRelay::take() {
  std::swap(kept_, taken_);
  kept_.requests.clear();
  return taken_;
}

}  // namespace quire
