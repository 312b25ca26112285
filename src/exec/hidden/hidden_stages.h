// HiddenStages is a model's part in drafting from hidden states. A model has no part, is the served
// model, which stores its states, or is the draft model, which reads those of the served one.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "core/hidden_rows.h"
#include "core/step.h"
#include "exec/hidden/hidden_inlet.h"
#include "exec/hidden/hidden_outlet.h"
#include "exec/memory/row_transfer.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

class HiddenStages {
 public:
  // memory_bytes() returns the bytes that it takes of the arena; num_floats() returns how many
  // floats its transfer moves at a time.
  static int64_t memory_bytes(const HiddenRows* rows, bool drafts, const DecoderSpec& spec,
                              const DecoderLimits& limits);
  static int64_t num_floats(const HiddenRows* rows, bool drafts, const DecoderSpec& spec,
                            const DecoderLimits& limits);

  // With null `rows` the model takes no part. `drafts` says that it is the draft model.
  // `residual_scale` is that of HiddenOutlet. Borrows the decoder and the spec.
  HiddenStages(std::shared_ptr<HiddenRows> rows, bool drafts, Decoder& decoder,
               const DecoderSpec& spec, const DecoderLimits& limits, float residual_scale,
               Arena& arena, RowTransfer transfer = {});

  // For the draft model: returns the position in the text at which a request of it begins.
  // Otherwise 0.
  int32_t first_position(RequestId id) const { return inlet_ ? rows_->first_position(id) : 0; }
  // before() sets the inputs of a forward pass: the states that it reads, and where it stores its
  // own. after() waits for the pass and stores or keeps its states.
  Status before(const StepPlan& plan, ForwardInputs& inputs);
  Status after(const StepPlan& plan);
  // Sets the same inputs for a pass without a request.
  void before_none(ForwardInputs& inputs) const;
  // For the served model: end_step() is called after each step, once its tokens are sampled.
  bool is_read() const { return outlet_.has_value(); }
  void end_step(std::span<const HiddenText> texts) const { rows_->end_step(texts); }

 private:
  const std::shared_ptr<HiddenRows> rows_;
  std::optional<HiddenOutlet> outlet_;
  std::optional<HiddenInlet> inlet_;
};

}  // namespace quire
