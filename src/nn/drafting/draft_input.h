// What a drafting decoder makes of tokens and hidden states (nn/spec/draft_input_spec.h).
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/spec/batch_sizes.h"
#include "nn/spec/draft_input_spec.h"
#include "nn/weights/draft_input_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Of a batch: the hidden state before each token, where the stream's device reads it.
struct DraftRows {
  const float* rows = nullptr;  // [T, hidden_size], or [T, E] of states that are its own
  bool are_own = false;
};

// Borrows what it is made of. One thread at a time may use it.
class DraftInput {
 public:
  static int64_t memory_bytes(const DraftInputSpec& spec, const BatchSizes& sizes);

  DraftInput(const DraftInputSpec& spec, const DraftInputWeights& weights, const BatchSizes& sizes,
             Stream& stream, Arena& arena);

  // stream [T, E]: the embeddings, and then what the first layer adds to.
  void join(const DraftRows& rows, const int32_t* positions, float* stream, int64_t num_tokens,
            void* linear_workspace);
  // Returns [T, 2 E] of the last join(), with is_beside.
  ConstActivations pairs() const { return pairs_; }

 private:
  int64_t pair_width() const;
  // x [T, width] behind the norm, valid until the next call; x itself without a weight.
  const float* normed(const float* x, const float* weight, int64_t width, int64_t num_tokens);
  // Columns [first, first + width) of the pairs. `positions`: as CopyRowsParams.
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
      states_;     // [T, hidden_size] with is_beside: of activations' type, where that is another
  float* normed_;  // [T, max(E, hidden_size)]
};

}  // namespace quire
