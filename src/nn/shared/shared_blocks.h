// What a block that layers share needs beside attention and MLP (SharedBlockSpec), for one batch at a
// time.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/products/linear_product.h"
#include "nn/spec/batch_sizes.h"
#include "nn/weights/shared_block_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows what it is made of. One thread at a time may use it.
class SharedBlocks {
 public:
  static int64_t memory_bytes(const SharedWeights& weights, const BatchSizes& sizes);

  SharedBlocks(const SharedWeights& weights, const BatchSizes& sizes, Stream& stream, Arena& arena);

  // Takes x0 [T, E], which is kept for the batch.
  void begin(const float* embedded, int64_t num_tokens);
  // What the attention of the layer's block reads, [T, 2 E]; hidden [T, E]: the residual stream.
  ConstActivations pairs(size_t layer, const float* hidden, int64_t num_tokens);
  // qkv [T, qkv_rows] += the use's update of what was made of the last pairs().
  void update_qkv(size_t layer, Activations qkv, int64_t num_tokens, void* linear_workspace);
  // gate_up [T, 2 F] += that of what was made of x [T, E].
  void update_gate_up(size_t layer, ConstActivations x, Activations gate_up, int64_t num_tokens,
                      void* linear_workspace);
  // Returns [T, E] for what attention and then the MLP make.
  float* inside() { return inside_; }
  // Returns [T, E]: hidden and what out() makes of inside().
  const float* end(size_t layer, const float* hidden, int64_t num_tokens, void* linear_workspace);

 private:
  struct Buffers;
  // Computes y [T, N] += x W^T, or = with `replaces`.
  void multiply(const LinearWeights& weights, ConstActivations x, int64_t x_stride,
                const Columns& y, bool replaces, int64_t num_tokens, void* linear_workspace);

  const SharedWeights& weights_;
  const BatchSizes sizes_;
  Stream& stream_;
  float* embedded_;  // [T, E]
  float* pairs_;     // [T, 2 E]
  float* inside_;    // [T, E]
  float* mixed_;     // [T, E]
  // As products read them:
  Activations normed_pairs_;  // [T, 2 E]
  Activations read_;          // [T, E], where that is no float
  Activations narrow_;        // [T, 3 r]
};

}  // namespace quire
