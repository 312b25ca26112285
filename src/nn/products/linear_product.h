// Products with matrices that may consist of several parts (weights/checkpoint.h), for all blocks
// of a layer.
#pragma once

#include <cstdint>
#include <span>

#include "device/stream.h"
#include "kernels/api/linear.h"
#include "nn/adapters/lora_batch.h"
#include "nn/weights/linear_weights.h"
#include "tensor/activations.h"

namespace quire {

class RankExchange;

// Columns of an array whose rows are `stride` elements apart; 0: the array has no other columns.
struct Columns {
  Activations data;
  int64_t stride = 0;
};

// y [T, N] = (accumulate ? y : 0) + x [T, K] W^T + bias.
struct LinearProduct {
  const LinearWeights& weights;
  ConstActivations x;
  int64_t x_stride = 0;  // 0: K
  Activations y;
  int64_t y_stride = 0;  // 0: N
  int64_t num_tokens = 0;
  bool accumulate = false;
  void* workspace = nullptr;  // linear_workspace_bytes() bytes
  float* clamped = nullptr;   // [T, K], for weights with bounds: receives the clipped inputs
};
// `lora` holds the batch's adapters, or is null.
void run_linear(Stream& stream, const LinearProduct& product, LoraBatch* lora = nullptr);

// BatchLinears computes the products of a decoder's batch, with one workspace, the batch's
// adapters, and the ranks that share the model, all of which it borrows. One thread at a time may
// use it.
class BatchLinears {
 public:
  struct Shared {
    void* workspace = nullptr;
    float* clamped = nullptr;       // BufferSizes::clamped, for models that clip inputs
    LoraBatch* lora = nullptr;      // null: no adapters
    RankExchange* ranks = nullptr;  // null: one rank computes the model
  };
  BatchLinears(Stream& stream, const Shared& shared) : stream_(stream), shared_(shared) {}

  Stream& stream() const { return stream_; }
  void* workspace() const { return shared_.workspace; }
  RankExchange* ranks() const { return shared_.ranks; }
  LoraBatch* lora() const { return shared_.lora; }

  // Returns whether an adapter of the selected rows changes the matrix.
  bool has_updates(const LinearWeights& weights) const;
  // Selects the batch's tokens [begin, begin + count): row i of later calls is token begin + i.
  void select(int64_t begin, int64_t count);
  // Selects tokens: row i of later calls is the batch's token tokens[i].
  void select(std::span<const int32_t> tokens);

  void run(const LinearWeights& weights, ConstActivations x, const Columns& y, int64_t num_tokens,
           bool accumulate = false);
  // out [T, E] += (or =) a product of which each rank computes some columns.
  void run_output(const LinearWeights& weights, ConstActivations x, Activations out,
                  int64_t num_tokens, bool accumulate);

 private:
  Stream& stream_;
  Shared shared_;
};

}  // namespace quire
