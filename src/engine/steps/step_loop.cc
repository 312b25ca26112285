#include "engine/steps/step_loop.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace quire {

bool StepLoop::step() {
  const int64_t begin_us = parts_.clock.now_us();
  parts_.journal.log_throughput(begin_us);
  parts_.progress.expire(begin_us);
  const StepPlan& plan = make_plan(begin_us);
  return overlaps_ ? run_overlapped(plan, begin_us) : run(plan, begin_us);
}

const StepPlan& StepLoop::make_plan(int64_t now_us) {
  parts_.masks.hold_late();
  parts_.answers.push_handed_over(now_us);
  StepPlan& plan = parts_.scheduler.schedule(now_us);
  for (ChoiceMasks::Failure& failure : parts_.masks.complete(plan)) {
    parts_.answers.end(*failure.choice, FinishReason::kError, std::move(failure.status));
  }
  return plan;
}

bool StepLoop::run(const StepPlan& plan, int64_t begin_us) {
  if (plan.empty()) {
    const bool has_copied = make_host_copies(plan);
    parts_.answers.flush();
    return has_copied;
  }
  parts_.progress.on_scheduled(plan, begin_us);
  const int64_t scheduled_us = parts_.clock.now_us();
  Result<StepResult> result = checked_executor_.execute(plan);
  const int64_t executed_us = parts_.clock.now_us();
  finish(plan, std::move(result),
         {.begin_us = begin_us,
          .schedule_us = scheduled_us - begin_us,
          .execute_us = executed_us - scheduled_us},
         executed_us);
  return true;
}

bool StepLoop::run_overlapped(const StepPlan& plan, int64_t begin_us) {
  if (!plan.empty() && !submit(plan, begin_us)) return true;
  if (plan.empty() && make_host_copies(plan)) {
    parts_.answers.flush();
    return true;
  }
  const bool waits = plan.empty() || static_cast<int32_t>(under_way_.size()) ==
                                         parts_.executor.max_steps_in_flight();
  const bool progressed = !plan.empty() || !under_way_.empty();
  if (waits && !under_way_.empty()) collect_oldest();
  parts_.answers.flush();
  return progressed;
}

bool StepLoop::submit(const StepPlan& plan, int64_t begin_us) {
  parts_.progress.on_scheduled(plan, begin_us);
  StepUnderWay& step = under_way_.emplace_back();
  step.plan.step_id = plan.step_id;
  step.plan.scheduled = plan.scheduled;
  step.plan.host_copies = plan.host_copies;
  step.plan.total_num_scheduled_tokens = plan.total_num_scheduled_tokens;
  step.begin_us = begin_us;
  const Status submitted = checked_executor_.submit(plan);
  step.scheduled_us = parts_.clock.now_us();
  if (submitted.ok()) return true;
  const StepUnderWay failed = std::move(step);
  under_way_.pop_back();
  settle();  // steps end in order, since the end of one tells that all host copies so far are made
  finish(failed.plan, submitted,
         {.begin_us = begin_us, .schedule_us = failed.scheduled_us - begin_us},
         parts_.clock.now_us());
  return false;
}

void StepLoop::settle() {
  while (!under_way_.empty()) collect_oldest();
  parts_.answers.flush();
}

// The part of a step that ran behind the previous one is not counted, so that the times of steps
// add up to the clock.
void StepLoop::collect_oldest() {
  const StepUnderWay step = std::move(under_way_.front());
  under_way_.pop_front();
  Result<StepResult> result = checked_executor_.collect(step.plan);
  const int64_t executed_us = parts_.clock.now_us();
  const int64_t begin_us = std::max(step.begin_us, last_step_end_us_);
  const int64_t scheduled_us = std::max(step.scheduled_us, begin_us);
  finish(step.plan, std::move(result),
         {.begin_us = begin_us,
          .schedule_us = scheduled_us - begin_us,
          .execute_us = executed_us - scheduled_us},
         executed_us);
}

bool StepLoop::make_host_copies(const StepPlan& plan) {
  if (plan.host_copies.empty()) return false;
  settle();
  const Result<StepResult> made = checked_executor_.execute(plan);
  if (!made.ok()) log_warn("KV of finished requests: {}", made.status().message());
  end_copies(plan.step_id, made.status());
  end_all_if_lost();
  return true;
}

void StepLoop::end_copies(uint64_t step_id, const Status& status) {
  if (!status.ok() && lost_.ok()) {
    lost_ = status.code() == StatusCode::kUnavailable ? status : parts_.executor.health();
  }
  if (lost_.ok()) parts_.kv.on_step_done(step_id);
}

void StepLoop::end_all_if_lost() {
  if (!lost_.ok()) parts_.answers.end_all(FinishReason::kError, lost_);
}

void StepLoop::finish(const StepPlan& plan, Result<StepResult> result, StepRecord step,
                      int64_t executed_us) {
  end_copies(plan.step_id, result.status());
  if (result.ok()) {
    for (const RequestUpdate& update : parts_.scheduler.update(*result, executed_us)) {
      parts_.progress.apply(update, executed_us);
    }
  } else {
    parts_.progress.fail_step(plan, result.status());
    end_all_if_lost();
  }
  parts_.kv_news.pass_on();
  const int64_t updated_us = parts_.clock.now_us();
  step.update_us = std::exchange(flush_us_, 0) + updated_us - executed_us;
  step.failed = !result.ok();
  parts_.journal.record(plan, result.ok() ? &*result : nullptr, step);
  if (const GraphCounts* counts = parts_.executor.graph_counts())
    parts_.metrics.set_graphs(*counts);
  // This is last, so that a reader that has the tokens of a step finds that step in the metrics.
  parts_.answers.flush();
  last_step_end_us_ = parts_.clock.now_us();
  flush_us_ = last_step_end_us_ - updated_us;
  if (result.ok()) parts_.executor.recycle(std::move(*result));
}

}  // namespace quire
