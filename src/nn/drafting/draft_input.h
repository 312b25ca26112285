// DraftInput computes the input of a draft model from tokens and hidden states
// (nn/spec/draft_input_spec.h).
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/spec/batch_sizes.h"
#include "nn/spec/draft_input_spec.h"
#include "nn/weights/draft_input_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// The hidden state before each token of a batch, in memory of the stream's device.
struct DraftRows {
  const float* rows = nullptr;  // [T, hidden_size], or [T, E] if they are the draft model's own
  bool are_own = false;
};

// Borrows its arguments. One thread at a time may use it.
class DraftInput {
 public:
  static int64_t memory_bytes(const DraftInputSpec& spec, const BatchSizes& sizes);

  DraftInput(const DraftInputSpec& spec, const DraftInputWeights& weights, const BatchSizes& sizes,
             Stream& stream, Arena& arena);

  // stream [T, E] holds the embeddings; join() replaces them by the residual stream of the first
  // layer.
  void join(const DraftRows& rows, const int32_t* positions, float* stream, int64_t num_tokens,
            void* linear_workspace);
  // Returns the pairs [T, 2 E] of the last join(), for is_beside.
  ConstActivations pairs() const { return pairs_; }

 private:
  int64_t pair_width() const;
  // Returns x [T, width] after the norm, valid until the next call; x itself if `weight` is null.
  const float* normed(const float* x, const float* weight, int64_t width, int64_t num_tokens);
  // Writes x to columns [first, first + width) of the pairs. `positions` is that of CopyRowsParams.
  void place(const float* x, int64_t first, int64_t width, int64_t num_tokens,
             const int32_t* positions = nullptr);
  void copy(const float* x, float* out, int64_t num_tokens);  // [T, E]
  void project(ConstActivations x, float* out, int64_t num_tokens, void* linear_workspace);

  const DraftInputSpec& spec_;
  const DraftInputWeights& weights_;
  const BatchSizes sizes_;
  Stream& stream_;
  Activations pairs_;  // [T, pair_width()]
  Activations
      states_;     // [T, hidden_size] with is_beside, in activations' type, if that is not float
  float* normed_;  // [T, max(E, hidden_size)]
};

}  // namespace quire
