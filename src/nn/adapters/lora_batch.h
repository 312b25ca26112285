// The adapters of one batch: adds the low-rank updates of its rows to what linears have computed.
// Rows without an adapter are not touched, and cost nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/stream.h"
#include "nn/adapters/lora_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// The rows of a batch that have one adapter.
struct LoraRows {
  const LoraWeights* weights = nullptr;
  std::span<const int32_t> rows = {};  // ascending; each row of the batch is in one list at most
};

// Borrows stream and arena. One thread at a time.
class LoraBatch {
 public:
  static int64_t memory_bytes(const LoraLimits& limits, int64_t max_tokens);
  LoraBatch(const LoraLimits& limits, int64_t max_tokens, Stream& stream, Arena& arena);

  // The lists stay valid until the next call.
  void begin(std::span<const LoraRows> adapters, int64_t num_tokens);
  // From here on rows are those of the batch's tokens [begin, begin + count).
  void select(int64_t begin, int64_t count);
  // Whether any selected row's adapter changes the matrix.
  bool changes(const MatrixWeight& matrix) const;
  // y += the updates of x, for the selected rows. y holds the matrix's outputs already.
  struct Product {
    const MatrixWeight& matrix;
    ConstActivations x;
    int64_t x_stride = 0;
    Activations y;
    int64_t y_stride = 0;
    void* linear_workspace = nullptr;
  };
  void apply(const Product& product);

 private:
  void apply(const Product& product, std::span<const LoraSegment> segments);
  // Of an adapter whose updates need what the matrix itself gives.
  void apply_to_scaled(const Product& product, const LoraRows& adapter);

  LoraLimits limits_;
  Stream& stream_;
  std::span<const LoraRows> adapters_;
  int32_t* rows_ = nullptr;  // [T], of the selection
  float* workspace_ = nullptr;
  float* base_x_ = nullptr;  // [kBaseRows, max_inputs]
  float* base_y_ = nullptr;  // [kBaseRows, max_outputs]
  std::vector<LoraRows> selected_;
  std::vector<LoraSegment> segments_;
};

}  // namespace quire
