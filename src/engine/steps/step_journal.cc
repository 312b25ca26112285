#include "engine/steps/step_journal.h"

#include <algorithm>

namespace quire {
namespace {
constexpr size_t kStepRecords = 512;
}  // namespace

void StepJournal::log_throughput(int64_t now_us) {
  if (log_.due(now_us)) log_.throughput(parts_.metrics.snapshot(now_us - start_us_, 0), now_us);
}

void StepJournal::record(const StepPlan& plan, const StepResult* result, StepRecord step) {
  step.step_id = plan.step_id;
  step.num_waiting = parts_.scheduler.stats().num_waiting;
  costs_.fill(plan, result, step);
  const BlockCounts in_use = parts_.kv.stores().num_usable() - parts_.kv.stores().num_free();
  step.kv_blocks_in_use = static_cast<int32_t>(in_use[KvPool::kAttention]);
  step.state_blocks_in_use = static_cast<int32_t>(in_use[KvPool::kState]);
  parts_.metrics.on_step(step);
  log_.step(step);
  if (steps_.size() < kStepRecords) {
    steps_.push_back(step);
  } else {
    steps_[next_step_] = step;
    next_step_ = (next_step_ + 1) % kStepRecords;
  }
}

std::vector<StepRecord> StepJournal::recent() const {
  std::vector<StepRecord> steps = steps_;
  std::rotate(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(next_step_), steps.end());
  return steps;
}

}  // namespace quire
