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
#include "device/stream.h"
#include "exec/input_batch.h"
#include "exec/memory/row_transfer.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// Borrows the decoder, the stream and the team. One thread at a time may use it.
class PoolingStage {
 public:
  // The model's layers are computed on the stream, and all else on the host.
  struct Place {
    Stream& stream;
    ThreadTeam& team;
    Arena& arena;
    RowTransfer transfer = {};  // of num_floats()
  };
  // Return how many bytes it takes of the arena, and how many floats its transfer moves at a time.
  // Both are 0 for a model that is not for pooling.
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits);
  static int64_t num_floats(const DecoderSpec& spec, const DecoderLimits& limits);

  PoolingStage(const DecoderSpec& spec, const DecoderLimits& limits, Decoder& decoder,
               const Place& place);

  // What the executor can make of prompts.
  PoolingInfo info() const;

  // Fills `pooled` of the plan's requests whose last token the step has computed, from the hidden states
  // of the last forward pass, for which it waits. Values that are not finite fail their request alone.
  // kUnavailable: the GPU is lost.
  Status run(const StepPlan& plan, const InputBatch& batch,
             std::vector<RequestStepResult>& results);

 private:
  // The rows of hidden states [tokens, E] that the step has computed for one request.
  struct Rows {
    int64_t first = 0;                // of the step's tokens
    const float* hidden = nullptr;    // of that one
    const TokenId* tokens = nullptr;  // likewise
    int64_t num_tokens = 0;
    bool ends = false;  // the last of them is the prompt's last
  };
  // Fills rows_ with those of each request, where `hidden` is not known yet.
  void find_rows(const StepPlan& plan, const InputBatch& batch);
  // Returns the tokens of the step whose states pool() reads.
  WorkRange rows_read(const Rows& rows, const RequestState& state) const;
  void pool(const Rows& rows, const PoolingParams& params, RequestState& state) const;
  void pool_steps(const Rows& rows, bool all, std::vector<float>& out) const;
  Status finish(const PoolingParams& params, RequestState& state, RequestStepResult& result);
  Status apply_layers(std::vector<float>& rows, int64_t num_rows);
  void activate(const PoolingParams& params, std::span<float> row) const;

  const DecoderSpec& spec_;
  Decoder& decoder_;
  Stream& stream_;
  ThreadTeam& team_;
  RowTransfer transfer_;
  std::vector<Rows> rows_;  // of the requests of the last step
  float* buffers_[2];       // [kMaxPooledRows, widest], of models with layers behind
  Activations inputs_;      // the same in the type that products read
};

}  // namespace quire
