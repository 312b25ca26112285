#include "engine/observe/step_cost.h"

#include <algorithm>
#include <span>

namespace quire {
namespace {

double predict_us(const CostModel& model, int32_t num_decodes, int32_t context, int32_t num_prompt,
                  int32_t position) {
  StepShape shape;
  for (int32_t i = 0; i < num_decodes; ++i) shape.add(context - 1, 1, true, model.windows());
  if (num_prompt > 0) shape.add(position, num_prompt, false, model.windows());
  return model.predict_us(shape);
}

// Returns the rows of a source; num_embeddings also counts the rows that a text leaves empty in its
// blocks.
int32_t rows_of(const MediaItem& item) {
  return item.text.empty() ? item.num_embeddings : static_cast<int32_t>(item.text.size());
}

}  // namespace

StepTimeTable step_time_table(const CostModel& model) {
  constexpr int32_t kDecodes = 16;
  constexpr int32_t kChunk = 512;
  constexpr int32_t kContext = 4096;
  const double one = predict_us(model, 1, 1, 0, 0);
  const double many = predict_us(model, kDecodes, 1, 0, 0);
  const double far = predict_us(model, 1, kContext, 0, 0);
  const double chunk = predict_us(model, 1, 1, kChunk, 0);
  const double far_chunk = predict_us(model, 1, 1, kChunk, kContext);
  StepTimeTable table;
  table.decode_us = std::max(0.0, (many - one) / (kDecodes - 1));
  table.context_us = std::max(0.0, (far - one) / (kContext - 1));
  table.step_us = std::max(0.0, one - table.decode_us - table.context_us);
  table.prompt_context_us =
      std::max(0.0, (far_chunk - chunk) / (static_cast<double>(kChunk) * kContext));
  const double attention_us = table.prompt_context_us * kChunk * kChunk / 2;
  // Prompt tokens never count as free, however fast the hardware is said to be.
  table.prompt_token_us = std::max(1e-3, (chunk - one - attention_us) / kChunk);
  return table;
}

void StepCosts::fill(const StepPlan& plan, const StepResult* result, StepRecord& record) {
  StepShape& shape = step_.shape;
  shape.clear();
  follow_sources(plan);
  const std::span<const int32_t> windows =
      model_ ? std::span<const int32_t>(model_->windows()) : std::span<const int32_t>();
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan.scheduled[i];
    const bool sampled = result != nullptr && !result->requests[i].sampled_token_ids.empty();
    const auto source = source_rows_.empty() ? source_rows_.end() : source_rows_.find(scheduled.id);
    shape.add(scheduled.num_computed_tokens, scheduled.num_scheduled_tokens, sampled, windows,
              source == source_rows_.end() ? 0 : source->second);
  }
  record.num_requests = shape.num_requests;
  record.num_tokens = shape.num_tokens;
  record.num_decodes = shape.decode.num_requests;
  record.num_sampled = shape.num_sampled;
  record.decode_context = shape.decode.context;
  if (result != nullptr) {
    record.executor = result->timings;
    record.media_encode_us = result->media_encode_us;
  }
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

void StepCosts::follow_sources(const StepPlan& plan) {
  for (const RequestId id : plan.dropped) source_rows_.erase(id);
  for (const NewRequest& request : plan.new_requests) {
    if (request.media.empty() || !request.media.front().is_source()) continue;
    source_rows_[request.id] = rows_of(*request.media.front().item);
  }
  if (source_rows_.empty()) return step_.shape.add_pictures(plan);
  for (const auto& item : plan.media_inputs) step_.shape.encoded_rows.push_back(rows_of(*item));
}

}  // namespace quire
