// What an adapter contains beside updates of matrices: a head, embeddings and norms that replace
// those of the model, and a low-rank update of the embeddings.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/result.h"
#include "kernels/api/embedding.h"
#include "nn/adapters/lora_options.h"
#include "nn/adapters/lora_reader.h"
#include "nn/weights/linear_weights.h"
#include "nn/weights/norm_weights.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// A low-rank update of the embeddings: a token's row += scale * sum_r a[token, r] * b[r].
struct EmbeddingUpdate {
  int64_t rank = 0;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  const float* a = nullptr;  // [V, rank], multiplied by scale
  const float* b = nullptr;  // [rank, E]

  static int64_t bytes(int64_t rank, int64_t vocab_size, int64_t hidden_size) {
    return Arena::padded(rank * vocab_size * 4) + Arena::padded(rank * hidden_size * 4);
  }
};

// Points into its adapter's arena. It is immutable once loaded; then any thread may read it.
class ReplacedModules {
 public:
  // kInvalidArgument: a module's shape differs from the model's.
  static Status check(const ReplacedWeights& found);
  // Returns the bytes that load() takes from the arena.
  static int64_t bytes(const ReplacedWeights& found, const LoraOptions& options);
  Status load(const ReplacedWeights& found, const LoraOptions& options, Arena& arena);

  bool is_empty() const { return !table_ && !update_ && head_ == nullptr && norms_.empty(); }
  const TableWeight* embedding() const { return table_ ? &*table_ : nullptr; }  // null: the model's
  const EmbeddingUpdate* embedding_update() const { return update_ ? &*update_ : nullptr; }
  // Returns the matrix that replaces this one, or null if none does.
  const LinearWeights* matrix(const MatrixWeight& base) const {
    return head_ != nullptr && head_ == &base ? &own_head_ : nullptr;
  }
  // Returns the weights that replace those of this norm, or null if none do.
  const NormWeights* norm(const NormWeights& base) const;

 private:
  std::optional<TableWeight> table_;
  std::optional<EmbeddingUpdate> update_;
  const MatrixWeight* head_ = nullptr;
  LinearWeights own_head_;
  std::unordered_map<const float*, NormWeights> norms_;  // by the weights that they replace
};

}  // namespace quire
