// Finds the hidden states that a drafting model reads: those of the served model, and behind them its
// own. CPUs alone.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/hidden_rows.h"
#include "core/step.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// Token i of a request that drafts stands at HiddenRows::first_position() + i of the text and reads
// the state of the position before. Borrows the decoder. One thread may use it.
class HiddenInlet {
 public:
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits);

  HiddenInlet(std::shared_ptr<HiddenRows> rows, Decoder& decoder, const DecoderSpec& spec,
              const DecoderLimits& limits, Arena& arena);

  // Returns the states that the step's tokens read, zeros where nobody has put any. They are valid
  // until the next call. kInternal: the step has states of both models.
  Result<DraftRows> rows(const StepPlan& plan);
  // Takes what the decoder's own states of the requests' last tokens have come to.
  void keep(const StepPlan& plan);

 private:
  struct Record {
    int32_t first_position = 0;
    std::vector<float> own;  // behind its last computed token
  };
  void apply(const StepPlan& plan);

  const std::shared_ptr<HiddenRows> rows_;
  Decoder& decoder_;
  const DecoderSpec& spec_;
  float* buffer_;  // [T, max(E, hidden_size)]
  std::unordered_map<RequestId, Record> records_;
};

}  // namespace quire
