// The adapters of one batch: adds the low-rank updates of its rows to what linears have computed,
// and puts replaced modules in the place of the model's. Rows without an adapter are not touched,
// and cost nothing.
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

// These are the rows of a batch that have one adapter.
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

  // The lists stay valid until the next call. On a GPU there are `slots` in place of lists.
  void begin(std::span<const LoraRows> adapters, const LoraSlots& slots, int64_t num_tokens);
  // From here on rows are those of the batch's tokens [begin, begin + count).
  void select(int64_t begin, int64_t count);
  // From here on row i is that of the batch's token tokens[i], each of which is there once.
  void select(std::span<const int32_t> tokens);
  // Whether any selected row's adapter changes the matrix; on a GPU, whether it could.
  bool changes(const MatrixWeight& matrix) const;
  // y += the updates of x, for the selected rows. y holds the matrix's outputs already, and gets
  // those of an adapter that replaces the matrix.
  struct Product {
    const MatrixWeight& matrix;
    const float* bias = nullptr;
    ConstActivations x;
    int64_t x_stride = 0;
    Activations y;
    int64_t y_stride = 0;
    void* linear_workspace = nullptr;
  };
  // Before the product is made, which may overwrite what it reads, and behind it.
  void prepare(const Product& product);
  void apply(const Product& product);

  // Returns the updates of a layer's experts for the selected rows, which are `num_rows`, or null
  // where no adapter changes them. The result is valid until the next call.
  const ExpertUpdates* experts(size_t layer, int64_t num_rows);

  // Changes rows of embeddings [T, E] that have been made from `params`, CPU only.
  void apply_to_embeddings(const EmbeddingParams& params);

  // Calls run(first, count, weights) for each run of the rows [0, num_rows), as they are selected,
  // that are normed by the same weights: those of an adapter that replaces `base`, or `base`.
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
  // Of an adapter whose updates need what the matrix itself gives.
  void apply_to_scaled(const Product& product, const LoraRows& adapter);
  void replace(const Product& product, const LinearWeights& weights, const LoraRows& adapter);
  // Copies what some rows of the product read, and multiplies it by `matrix`, into base_y_.
  void multiply_rows(const Product& product, const MatrixWeight& matrix, void* workspace,
                     std::span<const int32_t> rows);
  // Of row `row` of the embeddings: what the table has for its token, and what an update adds.
  void embed_row(const EmbeddingParams& params, const TableWeight& table, int64_t row);
  static void add_to_row(const EmbeddingParams& params, const EmbeddingUpdate& update, int64_t row);
  // Fills norms_; false: all rows have `base`.
  bool list_norms(const NormWeights& base, int64_t num_rows);

  LoraLimits limits_;
  Stream& stream_;
  std::span<const LoraRows> adapters_;
  LoraSlots slots_;
  const int32_t* tokens_ = nullptr;  // of the selected rows, on the device; null: theirs is the row
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
