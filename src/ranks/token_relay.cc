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
  const bool is_last = step == num_steps_;  // so no request was sent or dropped since
  for (const RequestStepResult& request : result.requests) {
    if (!is_last) {
      const auto sent = sent_in_.find(request.id);
      if (sent == sent_in_.end() || sent->second > step) continue;
    }
    if (kept_.count == kept_.requests.size()) kept_.requests.emplace_back();
    RequestStepResult& kept = kept_.requests[kept_.count++];
    kept.id = request.id;
    kept.status = request.status;
    kept.sampled_token_ids = request.sampled_token_ids;
  }
}

std::span<const RequestStepResult> TokenRelay::take() {
  std::swap(kept_, taken_);
  kept_.count = 0;
  return std::span(taken_.requests).first(taken_.count);
}

void TokenRelay::take(StepResult& out) {
  const std::span<const RequestStepResult> taken = take();
  out.requests.assign(taken.begin(), taken.end());
}

}  // namespace quire
