// SharedBlocks computes, for one batch at a time, the parts of a block that layers share
// (SharedBlockSpec) other than attention and MLP.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/products/linear_product.h"
#include "nn/spec/batch_sizes.h"
#include "nn/weights/shared_block_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows its arguments. One thread at a time may use it.
class SharedBlocks {
 public:
  static int64_t memory_bytes(const SharedWeights& weights, const BatchSizes& sizes);

  SharedBlocks(const SharedWeights& weights, const BatchSizes& sizes, Stream& stream, Arena& arena);

  // Copies x0 [T, E], the embedding, for the rest of the batch.
  void begin(const float* embedded, int64_t num_tokens);
  // Returns the input [T, 2 E] of the attention of the layer's block; hidden [T, E] is the residual
  // stream.
  ConstActivations pairs(size_t layer, const float* hidden, int64_t num_tokens);
  // qkv [T, qkv_rows] += the layer's low-rank update, applied to the result of the last pairs().
  void update_qkv(size_t layer, Activations qkv, int64_t num_tokens, void* linear_workspace);
  // gate_up [T, 2 F] += the layer's low-rank update, applied to x [T, E].
  void update_gate_up(size_t layer, ConstActivations x, Activations gate_up, int64_t num_tokens,
                      void* linear_workspace);
  // Returns the buffer [T, E] for the outputs of attention and then of the MLP.
  float* inside() { return inside_; }
  // Returns hidden + out(inside()), [T, E].
  const float* end(size_t layer, const float* hidden, int64_t num_tokens, void* linear_workspace);

 private:
  struct Buffers;
  // Computes y [T, N] += x W^T, or y = x W^T with `replaces`.
  void multiply(const LinearWeights& weights, ConstActivations x, int64_t x_stride,
                const Columns& y, bool replaces, int64_t num_tokens, void* linear_workspace);

  const SharedWeights& weights_;
  const BatchSizes sizes_;
  Stream& stream_;
  float* embedded_;  // [T, E]
  float* pairs_;     // [T, 2 E]
  float* inside_;    // [T, E]
  float* mixed_;     // [T, E]
  // In the type that products read:
  Activations normed_pairs_;  // [T, 2 E]
  Activations read_;          // [T, E], if that type is not float
  Activations narrow_;        // [T, 3 r]
};

}  // namespace quire
