// Puts the hidden states of a served model where one that drafts finds them. CPUs alone.
#pragma once

#include <memory>
#include <vector>

#include "core/hidden_rows.h"
#include "core/step.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// Borrows the decoder. One thread may use it.
class HiddenOutlet {
 public:
  static int64_t memory_bytes(const HiddenRowsSpec& spec, const DecoderSpec& decoder,
                              const DecoderLimits& limits);

  // `residual_scale` is what the decoder's residual stream is divided by (Granite's multiplier).
  HiddenOutlet(std::shared_ptr<HiddenRows> rows, Decoder& decoder, const DecoderSpec& spec,
               const DecoderLimits& limits, float residual_scale, Arena& arena);

  std::span<const HiddenTap> taps() const { return taps_; }
  // Puts the states of the step that the decoder has just computed.
  void put(const StepPlan& plan);

 private:
  const std::shared_ptr<HiddenRows> rows_;
  Decoder& decoder_;
  const float residual_scale_;
  int64_t width_;
  float* buffer_;  // [T, width]
  std::vector<HiddenTap> taps_;
};

}  // namespace quire
