#include "engine/step_cost.h"

#include <algorithm>
#include <span>

namespace quire {

void StepCosts::fill(const StepPlan& plan, const StepResult* result, StepRecord& record) {
  StepShape& shape = step_.shape;
  shape.clear();
  const std::span<const int32_t> windows =
      model_ ? std::span<const int32_t>(model_->windows()) : std::span<const int32_t>();
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan.scheduled[i];
    const bool sampled = result != nullptr && !result->requests[i].sampled_token_ids.empty();
    shape.add(scheduled.num_computed_tokens, scheduled.num_scheduled_tokens, sampled, windows);
  }
  record.num_requests = shape.num_requests;
  record.num_tokens = shape.num_tokens;
  record.num_decodes = shape.decode.num_requests;
  record.num_sampled = shape.num_sampled;
  record.decode_context = shape.decode.context;
  if (result != nullptr) record.executor = result->timings;
  if (model_) record.cost = model_->predict(shape);
  if (observers_.empty()) return;
  step_.step_id = record.step_id;
  step_.begin_us = record.begin_us;
  step_.schedule_us = record.schedule_us;
  step_.execute_us = record.execute_us;
  step_.update_us = record.update_us;
  step_.num_waiting = record.num_waiting;
  step_.failed = record.failed;
  for (const StepObserver& observer : observers_) observer(step_, record.cost);
}

}  // namespace quire
