#include "exec/hidden/hidden_outlet.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

int64_t width_of(const HiddenRowsSpec& spec, const DecoderSpec& decoder) {
  return decoder.hidden_size * std::max<int64_t>(1, std::ssize(spec.layers));
}

}  // namespace

int64_t HiddenOutlet::memory_bytes(const HiddenRowsSpec& spec, const DecoderSpec& decoder,
                                   const DecoderLimits& limits) {
  return Arena::padded(limits.max_tokens * width_of(spec, decoder) * 4);
}

HiddenOutlet::HiddenOutlet(std::shared_ptr<HiddenRows> rows, Decoder& decoder,
                           const DecoderSpec& spec, const DecoderLimits& limits,
                           float residual_scale, Arena& arena)
    : rows_(std::move(rows)),
      decoder_(decoder),
      residual_scale_(residual_scale),
      width_(width_of(rows_->spec(), spec)),
      buffer_(arena.allocate<float>(limits.max_tokens * width_)) {
  for (const int32_t layer : rows_->spec().layers) {
    const int64_t first = std::ssize(taps_) * spec.hidden_size;
    taps_.push_back({.layer = layer, .out = buffer_ + first, .stride = width_});
  }
}

void HiddenOutlet::put(const StepPlan& plan) {
  for (const RequestId id : plan.dropped) rows_->forget(id);
  const int64_t count = plan.total_num_scheduled_tokens * width_;
  if (taps_.empty()) {
    decoder_.head().head_inputs(plan.total_num_scheduled_tokens, buffer_);
  } else if (residual_scale_ != 1.0f) {
    std::transform(buffer_, buffer_ + count, buffer_, [&](float x) { return x * residual_scale_; });
  }
  const float* row = buffer_;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const int32_t num_tokens = scheduled.num_scheduled_tokens;
    const int32_t first = rows_->spec().sampled_only ? num_tokens - 1 - scheduled.num_drafts : 0;
    for (int32_t i = first; i < num_tokens; ++i) {
      rows_->put(scheduled.id, scheduled.num_computed_tokens + i,
                 {row + i * width_, static_cast<size_t>(width_)});
    }
    row += num_tokens * width_;
  }
}

}  // namespace quire
