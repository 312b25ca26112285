// Finds the hidden states that a drafting model reads: those of the served model, and behind them its
// own.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/hidden_rows.h"
#include "core/step.h"
#include "exec/memory/row_transfer.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// Token i of a request that drafts stands at HiddenRows::first_position() + i of the text and reads
// the state of the position before. Borrows the decoder. One thread may use it.
class HiddenInlet {
 public:
  // Return how many floats a step reads at most, and how many bytes of the arena they take.
  static int64_t num_floats(const DecoderSpec& spec, const DecoderLimits& limits);
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits);

  HiddenInlet(std::shared_ptr<HiddenRows> rows, Decoder& decoder, const DecoderSpec& spec,
              const DecoderLimits& limits, Arena& arena, RowTransfer transfer);

  // Returns the states that the step's tokens read, zeros where nobody has put any. They are valid
  // until the next call. kInternal: the step has states of both models.
  Result<DraftRows> rows(const StepPlan& plan);
  // Returns what a pass of no request reads.
  DraftRows empty_rows() const { return {.rows = buffer_}; }
  // Takes what the decoder's own states of the requests' last tokens have come to.
  Status keep(const StepPlan& plan);

 private:
  struct Record {
    int32_t first_position = 0;
    std::vector<float> own;  // behind its last computed token
  };
  void apply(const StepPlan& plan);

  const std::shared_ptr<HiddenRows> rows_;
  Decoder& decoder_;
  const DecoderSpec& spec_;
  RowTransfer transfer_;
  float* buffer_;  // [T, max(E, hidden_size)], where kernels read it
  std::unordered_map<RequestId, Record> records_;
};

}  // namespace quire
