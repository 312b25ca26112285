// HiddenOutlet copies the hidden states of a served model to where a draft model reads them.
#pragma once

#include <memory>
#include <vector>

#include "core/hidden_rows.h"
#include "core/step.h"
#include "exec/memory/row_transfer.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// Borrows the decoder. One thread may use it.
class HiddenOutlet {
 public:
  // num_floats() returns the most floats that a step produces; memory_bytes() returns the bytes
  // that they take of the arena.
  static int64_t num_floats(const HiddenRowsSpec& spec, const DecoderSpec& decoder,
                            const DecoderLimits& limits);
  static int64_t memory_bytes(const HiddenRowsSpec& spec, const DecoderSpec& decoder,
                              const DecoderLimits& limits);

  // `residual_scale` is the divisor of the decoder's residual stream (Granite's multiplier).
  HiddenOutlet(std::shared_ptr<HiddenRows> rows, Decoder& decoder, const DecoderSpec& spec,
               const DecoderLimits& limits, float residual_scale, Arena& arena,
               RowTransfer transfer);

  std::span<const HiddenTap> taps() const { return taps_; }
  // Copies the states of the step that the decoder has just computed.
  Status put(const StepPlan& plan);

 private:
  // Returns the first of a request's tokens in the step whose hidden state is to be stored.
  int32_t first_wanted(const ScheduledRequest& scheduled) const;

  const std::shared_ptr<HiddenRows> rows_;
  Decoder& decoder_;
  const float residual_scale_;
  int64_t width_;
  RowTransfer transfer_;
  float* buffer_;  // [T, width], written by kernels
  std::vector<HiddenTap> taps_;
};

}  // namespace quire
