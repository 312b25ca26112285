// HiddenStages is the part that a model takes in drafting from hidden states: it takes none, or
// hands its states over, or reads those of the model that it drafts for.
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
  // Return how many bytes it takes of the arena, and how many floats its transfer moves at a time.
  static int64_t memory_bytes(const HiddenRows* rows, bool drafts, const DecoderSpec& spec,
                              const DecoderLimits& limits);
  static int64_t num_floats(const HiddenRows* rows, bool drafts, const DecoderSpec& spec,
                            const DecoderLimits& limits);

  // With null `rows` the model takes no part. `drafts` says that the model reads the states.
  // `residual_scale` is that of HiddenOutlet. It borrows decoder and spec.
  HiddenStages(std::shared_ptr<HiddenRows> rows, bool drafts, Decoder& decoder,
               const DecoderSpec& spec, const DecoderLimits& limits, float residual_scale,
               Arena& arena, RowTransfer transfer = {});

  // Of the model that drafts: where the text begins that a request of it is about. Else 0.
  int32_t first_position(RequestId id) const { return inlet_ ? rows_->first_position(id) : 0; }
  // before() sets what a forward pass is to read and to tell. after() takes what came of it, for which
  // it waits.
  Status before(const StepPlan& plan, ForwardInputs& inputs);
  Status after(const StepPlan& plan);
  // Sets what before() would set for a pass of no request.
  void before_none(ForwardInputs& inputs) const;
  // Of the model whose states they are: end_step() follows each step, once its tokens are sampled.
  bool is_read() const { return outlet_.has_value(); }
  void end_step(std::span<const HiddenText> texts) const { rows_->end_step(texts); }

 private:
  const std::shared_ptr<HiddenRows> rows_;
  std::optional<HiddenOutlet> outlet_;
  std::optional<HiddenInlet> inlet_;
};

}  // namespace quire
