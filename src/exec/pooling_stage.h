// From hidden states to what pooled requests ask: one row for the prompt or one per token, then the
// layers that the model has behind them, then its normalization or its probabilities. A request's
// outcome depends on its own hidden states alone, which are summed in the order of its tokens
// (law L4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads/thread_team.h"
#include "core/step.h"
#include "exec/input_batch.h"
#include "nn/decoder/decoder.h"

namespace quire {

// Borrows the decoder and the team. One thread at a time may use it.
class PoolingStage {
 public:
  PoolingStage(const DecoderSpec& spec, Decoder& decoder, ThreadTeam& team);

  // What the executor can make of prompts.
  PoolingInfo info() const;

  // Fills `pooled` of the requests whose last token the step has computed, from the hidden states
  // of the last forward pass. Values that are not finite fail their request alone.
  void run(const InputBatch& batch, std::vector<RequestStepResult>& results);

 private:
  // The rows of `hidden` [tokens, E] that the step has computed for one request.
  struct Rows {
    const float* hidden = nullptr;
    const TokenId* tokens = nullptr;
    int64_t num_tokens = 0;
    bool ends = false;  // the last of them is the prompt's last
  };
  void pool(const Rows& rows, const PoolingParams& params, RequestState& state) const;
  void pool_steps(const Rows& rows, bool all, std::vector<float>& out) const;
  void finish(const PoolingParams& params, RequestState& state, RequestStepResult& result);
  void apply_layers(std::vector<float>& rows, int64_t num_rows);
  void activate(const PoolingParams& params, std::span<float> row) const;

  const DecoderSpec& spec_;
  Decoder& decoder_;
  ThreadTeam& team_;
  std::vector<float> buffers_[2];  // [kMaxPooledRows, widest]
};

}  // namespace quire
