// HiddenInlet collects the hidden states that a draft model reads: first those of the served model,
// then the draft model's own.
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

// Token i of a draft model's request stands at position HiddenRows::first_position() + i of the
// text, and reads the hidden state of the position before. Borrows the decoder. One thread may use
// it.
class HiddenInlet {
 public:
  // num_floats() returns the most floats that a step reads; memory_bytes() returns the bytes that
  // they take of the arena.
  static int64_t num_floats(const DecoderSpec& spec, const DecoderLimits& limits);
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits);

  HiddenInlet(std::shared_ptr<HiddenRows> rows, Decoder& decoder, const DecoderSpec& spec,
              const DecoderLimits& limits, Arena& arena, RowTransfer transfer);

  // Returns the hidden states that the step's tokens read, with zeros where there are none. They
  // are valid until the next call. kInternal: the step would need states of both models.
  Result<DraftRows> rows(const StepPlan& plan);
  // Returns the input of a pass without a request.
  DraftRows empty_rows() const { return {.rows = buffer_}; }
  // Stores the decoder's own hidden states of each request's last token in the step.
  Status keep(const StepPlan& plan);

 private:
  struct Record {
    int32_t first_position = 0;
    std::vector<float> own;  // hidden state of its last computed token; empty: none yet
  };
  void apply(const StepPlan& plan);

  const std::shared_ptr<HiddenRows> rows_;
  Decoder& decoder_;
  const DecoderSpec& spec_;
  RowTransfer transfer_;
  float* buffer_;  // [T, max(E, hidden_size)], read by kernels
  std::unordered_map<RequestId, Record> records_;
};

}  // namespace quire
