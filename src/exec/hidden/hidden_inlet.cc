#include "exec/hidden/hidden_inlet.h"

#include <algorithm>
#include <utility>

namespace quire {

int64_t HiddenInlet::num_floats(const DecoderSpec& spec, const DecoderLimits& limits) {
  if (!spec.draft_input.any()) return 0;
  return limits.max_tokens * std::max(spec.hidden_size, spec.draft_input.hidden_size);
}

int64_t HiddenInlet::memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits) {
  return Arena::padded(num_floats(spec, limits) * 4);
}

HiddenInlet::HiddenInlet(std::shared_ptr<HiddenRows> rows, Decoder& decoder,
                         const DecoderSpec& spec, const DecoderLimits& limits, Arena& arena,
                         RowTransfer transfer)
    : rows_(std::move(rows)),
      decoder_(decoder),
      spec_(spec),
      transfer_(transfer),
      buffer_(arena.allocate<float>(num_floats(spec, limits))) {}

void HiddenInlet::apply(const StepPlan& plan) {
  for (const RequestId id : plan.dropped) records_.erase(id);
  for (const NewRequest& request : plan.new_requests)
    records_[request.id] = {.first_position = rows_->first_position(request.id), .own = {}};
}

Result<DraftRows> HiddenInlet::rows(const StepPlan& plan) {
  apply(plan);
  int32_t num_theirs = 0;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const int32_t first = records_[scheduled.id].first_position - 1 + scheduled.num_computed_tokens;
    for (int32_t i = 0; i < scheduled.num_scheduled_tokens; ++i)
      num_theirs += rows_->range(scheduled.id).contains(first + i);
  }
  if (num_theirs != 0 && num_theirs != plan.total_num_scheduled_tokens) {
    return internal_error("step plan: hidden states for {} of {} tokens", num_theirs,
                          plan.total_num_scheduled_tokens);
  }
  const bool are_own = num_theirs == 0;
  const int64_t width = are_own ? spec_.hidden_size : spec_.draft_input.hidden_size;
  const int64_t count = plan.total_num_scheduled_tokens * width;
  float* out = transfer_.staged(buffer_);
  std::fill_n(out, count, 0.0f);
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const Record& record = records_[scheduled.id];
    const int32_t first = record.first_position - 1 + scheduled.num_computed_tokens;
    for (int32_t i = 0; i < scheduled.num_scheduled_tokens; ++i, out += width) {
      if (!are_own) {
        std::ranges::copy(rows_->row(scheduled.id, first + i), out);
      } else if (i == 0) {
        std::ranges::copy(record.own, out);
      }
    }
  }
  transfer_.send(buffer_, count);
  return DraftRows{.rows = buffer_, .are_own = are_own};
}

Status HiddenInlet::keep(const StepPlan& plan) {
  const int64_t width = spec_.hidden_size;
  float* const states = spec_.draft_input.feeds_normed ? buffer_ : decoder_.hidden();
  if (spec_.draft_input.feeds_normed)
    decoder_.head().head_inputs(plan.total_num_scheduled_tokens, buffer_);
  int64_t token = -1;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    token += scheduled.num_scheduled_tokens;
    transfer_.fetch(states, token * width, width);
  }
  QUIRE_ASSIGN_OR_RETURN(const float* const own, transfer_.fetched(states));
  token = -1;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    token += scheduled.num_scheduled_tokens;
    records_[scheduled.id].own.assign(own + token * width, own + (token + 1) * width);
  }
  return {};
}

}  // namespace quire
