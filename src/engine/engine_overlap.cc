// The step loop where the executor takes a step while another one runs: the host's work is done
// while the device computes.
#include <algorithm>
#include <exception>
#include <utility>

#include "engine/engine.h"

namespace quire {

bool Engine::overlapped_step() {
  const int64_t begin = clock_->now_us();
  if (log_.due(begin)) log_.throughput(stats(), begin);
  expire(begin);
  const StepPlan& plan = make_plan(begin);
  if (!plan.empty()) {
    note_scheduled(plan, begin);
    StepUnderWay& step = under_way_.emplace_back();
    step.plan.step_id = plan.step_id;
    step.plan.scheduled = plan.scheduled;
    step.plan.total_num_scheduled_tokens = plan.total_num_scheduled_tokens;
    step.begin_us = begin;
    const Status submitted = submit(plan);
    step.scheduled_us = clock_->now_us();
    if (!submitted.ok()) {
      const StepUnderWay failed = std::move(step);
      under_way_.pop_back();
      finish_step(failed.plan, submitted,
                  {.begin_us = begin, .schedule_us = failed.scheduled_us - begin},
                  failed.scheduled_us);
      return true;
    }
  }
  if (plan.empty() && make_host_copies(plan)) {
    flush();
    return true;
  }
  const bool waits =
      plan.empty() || static_cast<int32_t>(under_way_.size()) == executor_->max_steps_in_flight();
  const bool progressed = !plan.empty() || !under_way_.empty();
  if (waits && !under_way_.empty()) collect_oldest();
  flush();
  return progressed;
}

void Engine::settle() {
  while (!under_way_.empty()) collect_oldest();
  flush();
}

Status Engine::submit(const StepPlan& plan) {
  try {
    return executor_->submit(plan);
  } catch (const std::exception& e) {
    return internal_error("executor: {}", e.what());
  }
}

// What ran hidden behind the step before it is not counted: steps follow each other on the clock.
void Engine::collect_oldest() {
  const StepUnderWay step = std::move(under_way_.front());
  under_way_.pop_front();
  Result<StepResult> result = answer(step.plan, [&] { return executor_->collect(); });
  const int64_t executed = clock_->now_us();
  const int64_t begin = std::max(step.begin_us, last_step_end_us_);
  const int64_t scheduled = std::max(step.scheduled_us, begin);
  finish_step(
      step.plan, std::move(result),
      {.begin_us = begin, .schedule_us = scheduled - begin, .execute_us = executed - scheduled},
      executed);
}

}  // namespace quire
