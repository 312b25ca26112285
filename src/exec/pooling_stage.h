// PoolingStage computes what pooled requests ask for from hidden states: one row for the prompt or
// one per token, then the model's own layers behind the pooling, then normalization or
// probabilities. A request's outcome depends on its own hidden states alone, which are summed in
// the order of its tokens (law L4).
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
  // The layers behind the pooling run on the stream, everything else runs on the host.
  struct Place {
    Stream& stream;
    ThreadTeam& team;
    Arena& arena;
    RowTransfer transfer = {};  // of num_floats()
  };
  // memory_bytes() returns the bytes that it takes of the arena; num_floats() returns how many
  // floats its transfer moves at a time. Both are 0 for a model that does not pool.
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits);
  static int64_t num_floats(const DecoderSpec& spec, const DecoderLimits& limits);

  PoolingStage(const DecoderSpec& spec, const DecoderLimits& limits, Decoder& decoder,
               const Place& place);

  // Returns which tasks the executor can compute from prompts.
  PoolingInfo info() const;

  // Waits for the last forward pass, and fills `pooled` of the plan's requests whose last token the
  // step has computed. Values that are not finite fail their request alone. kUnavailable: the GPU
  // is lost.
  Status run(const StepPlan& plan, const InputBatch& batch,
             std::vector<RequestStepResult>& results);

 private:
  // The hidden states [tokens, E] that the step has computed for one request.
  struct Rows {
    int64_t first = 0;                // index among the step's tokens
    const float* hidden = nullptr;    // of the token `first`; null until known
    const TokenId* tokens = nullptr;  // from the token `first` on
    int64_t num_tokens = 0;
    bool ends = false;  // whether the last of them is the prompt's last token
  };
  // Fills rows_ with one entry per request, whose `hidden` is not set yet.
  void find_rows(const StepPlan& plan, const InputBatch& batch);
  // Returns which tokens of the step have hidden states that pool() reads.
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
  float* buffers_[2];       // [kMaxPooledRows, widest], of models with layers behind the pooling
  Activations inputs_;      // the same values in the type that products read
};

}  // namespace quire
