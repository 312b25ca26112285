#include "exec/hidden/hidden_outlet.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

int64_t width_of(const HiddenRowsSpec& spec, const DecoderSpec& decoder) {
  return decoder.hidden_size * std::max<int64_t>(1, std::ssize(spec.layers));
}

}  // namespace

int64_t HiddenOutlet::num_floats(const HiddenRowsSpec& spec, const DecoderSpec& decoder,
                                 const DecoderLimits& limits) {
  return limits.max_tokens * width_of(spec, decoder);
}

int64_t HiddenOutlet::memory_bytes(const HiddenRowsSpec& spec, const DecoderSpec& decoder,
                                   const DecoderLimits& limits) {
  return Arena::padded(num_floats(spec, decoder, limits) * 4);
}

HiddenOutlet::HiddenOutlet(std::shared_ptr<HiddenRows> rows, Decoder& decoder,
                           const DecoderSpec& spec, const DecoderLimits& limits,
                           float residual_scale, Arena& arena, RowTransfer transfer)
    : rows_(std::move(rows)),
      decoder_(decoder),
      residual_scale_(residual_scale),
      width_(width_of(rows_->spec(), spec)),
      transfer_(transfer),
      buffer_(arena.allocate<float>(limits.max_tokens * width_)) {
  for (const int32_t layer : rows_->spec().layers) {
    const int64_t first = std::ssize(taps_) * spec.hidden_size;
    taps_.push_back({.layer = layer, .out = buffer_ + first, .stride = width_});
  }
}

int32_t HiddenOutlet::first_wanted(const ScheduledRequest& scheduled) const {
  return rows_->spec().sampled_only ? scheduled.num_scheduled_tokens - 1 - scheduled.num_drafts : 0;
}

Status HiddenOutlet::put(const StepPlan& plan) {
  for (const RequestId id : plan.dropped) rows_->forget(id);
  if (taps_.empty()) decoder_.head().head_inputs(plan.total_num_scheduled_tokens, buffer_);
  int64_t token = 0;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const int32_t first = first_wanted(scheduled);
    transfer_.fetch(buffer_, (token + first) * width_,
                    (scheduled.num_scheduled_tokens - first) * width_);
    token += scheduled.num_scheduled_tokens;
  }
  QUIRE_ASSIGN_OR_RETURN(float* row, transfer_.fetched(buffer_));
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const int32_t num_tokens = scheduled.num_scheduled_tokens;
    for (int32_t i = first_wanted(scheduled); i < num_tokens; ++i) {
      const std::span<float> state(row + i * width_, static_cast<size_t>(width_));
      if (!taps_.empty() && residual_scale_ != 1.0f)
        for (float& x : state) x *= residual_scale_;
      rows_->put(scheduled.id, scheduled.num_computed_tokens + i, state);
    }
    row += num_tokens * width_;
  }
  return {};
}

}  // namespace quire
