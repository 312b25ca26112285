#include "exec/gpu/gpu_steps.h"

#include <utility>

namespace quire {

GpuSteps::GpuSteps(const DecoderLimits& limits, const KvSpec& kv, Events events)
    : steps_(events.size()), spare_results_(events.size()) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].batch = std::make_unique<InputBatch>(limits, kv);
    steps_[i].event = std::move(events[i]);
    steps_[i].turn = i;
  }
}

GpuStep& GpuSteps::start(uint64_t step_id, int64_t now_us) {
  GpuStep& step = at(num_submitted_);
  step.start_us = now_us;
  step.is_done = false;
  step.status = {};
  step.result = {.step_id = step_id};
  step.result.requests = std::exchange(spare_results_[step.turn], {});
  return step;
}

// The caller may hold the results of several steps before it returns the first one.
void GpuSteps::recycle(StepResult&& result) {
  clear_results(result.requests);
  for (std::vector<RequestStepResult>& spare : spare_results_) {
    if (spare.capacity() > 0) continue;
    spare = std::move(result.requests);
    return;
  }
}

}  // namespace quire
