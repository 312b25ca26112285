// LoraBatch applies the adapters of one batch: it adds the low-rank updates of the batch's rows to
// what linears have computed, and replaces modules of the model by those of an adapter. Rows
// without an adapter are not touched and cost nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/stream.h"
#include "kernels/api/embedding.h"
#include "nn/adapters/lora_table.h"
#include "nn/adapters/lora_weights.h"
#include "nn/weights/norm_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// The rows of a batch that use one adapter.
struct LoraRows {
  const LoraWeights* weights = nullptr;
  int32_t slot = -1;                   // on a GPU
  std::span<const int32_t> rows = {};  // ascending; each row of the batch is in one list at most
};

// Borrows stream and arena. One thread at a time may use it.
class LoraBatch {
 public:
  static int64_t memory_bytes(const LoraLimits& limits, int64_t max_tokens);
  LoraBatch(const LoraLimits& limits, int64_t max_tokens, Stream& stream, Arena& arena);

  // `adapters` must stay valid until the next call. On a GPU, `slots` takes its place.
  void begin(std::span<const LoraRows> adapters, const LoraSlots& slots, int64_t num_tokens);
  // Selects the batch's tokens [begin, begin + count): row i of later calls is token begin + i.
  void select(int64_t begin, int64_t count);
  // Selects tokens, each at most once: row i of later calls is the batch's token tokens[i].
  void select(std::span<const int32_t> tokens);
  // Returns whether the adapter of any selected row changes the matrix; on a GPU, whether one
  // could.
  bool changes(const MatrixWeight& matrix) const;
  // A product y = x W^T whose selected rows get y += the updates of x. y holds the matrix's outputs
  // already; for an adapter that replaces the matrix, it gets the outputs of the replacement.
  struct Product {
    const MatrixWeight& matrix;
    const float* bias = nullptr;
    ConstActivations x;
    int64_t x_stride = 0;
    Activations y;
    int64_t y_stride = 0;
    void* linear_workspace = nullptr;
  };
  // prepare() is called before the product is computed, because that may overwrite x; apply()
  // after.
  void prepare(const Product& product);
  void apply(const Product& product);

  // Returns the updates of a layer's experts for the `num_rows` selected rows, or null if no
  // adapter changes the experts. The result is valid until the next call.
  const ExpertUpdates* experts(size_t layer, int64_t num_rows);

  // Changes rows of embeddings [T, E] that have been looked up with `params`. CPU only.
  void apply_to_embeddings(const EmbeddingParams& params);

  // Calls run(first, count, weights) for each run of the selected rows [0, num_rows) whose norms
  // have the same weights: those of an adapter that replaces `base`, or `base` itself.
  template <class Run>
  void for_each_norm(const NormWeights& base, int64_t num_rows, const Run& run) {
    if (!list_norms(base, num_rows)) return run(int64_t{0}, num_rows, base);
    for (int64_t first = 0; first < num_rows;) {
      int64_t end = first + 1;
      while (end < num_rows &&
             norms_[static_cast<size_t>(end)] == norms_[static_cast<size_t>(first)])
        ++end;
      run(first, end - first, *norms_[static_cast<size_t>(first)]);
      first = end;
    }
  }

 private:
  void apply(const Product& product, std::span<const LoraSegment> segments);
  LoraSlotsParams slots_params(const Product& product) const;
  // For an adapter whose updates depend on the matrix's own outputs.
  void apply_to_scaled(const Product& product, const LoraRows& adapter);
  void replace(const Product& product, const LinearWeights& weights, const LoraRows& adapter);
  // Copies the inputs of some rows of the product and multiplies them by `matrix` into base_y_.
  void multiply_rows(const Product& product, const MatrixWeight& matrix, void* workspace,
                     std::span<const int32_t> rows);
  // Writes row `row` of the embeddings: its token's row of the table, and an update if there is
  // one.
  void embed_row(const EmbeddingParams& params, const TableWeight& table, int64_t row);
  static void add_to_row(const EmbeddingParams& params, const EmbeddingUpdate& update, int64_t row);
  // Fills norms_; returns false if all rows use `base`.
  bool list_norms(const NormWeights& base, int64_t num_rows);

  LoraLimits limits_;
  Stream& stream_;
  std::span<const LoraRows> adapters_;
  LoraSlots slots_;
  // The batch's token of each selected row, on the device; null: row i is token i.
  const int32_t* tokens_ = nullptr;
  int64_t num_selected_ = 0;
  int32_t* rows_ = nullptr;  // [T], of the selection
  float* workspace_ = nullptr;
  float* base_x_ = nullptr;  // [kBaseRows, max_inputs]
  float* base_y_ = nullptr;  // [kBaseRows, max_outputs]
  void* head_workspace_ = nullptr;
  int32_t* adapter_of_ = nullptr;  // [T], of models with experts
  void* experts_workspace_ = nullptr;
  std::vector<LoraRows> selected_;
  std::vector<LoraSegment> segments_;
  std::vector<const NormWeights*> norms_;  // by row
  std::vector<std::span<const ExpertUpdate>> expert_adapters_;
  ExpertUpdates expert_updates_;
};

}  // namespace quire
