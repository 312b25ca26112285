// A LoRA adapter in the layout of the kernels: the low-rank updates of a model's matrices.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "device/isa.h"
#include "kernels/api/lora.h"
#include "tensor/arena.h"
#include "weights/adapters/lora_files.h"
#include "weights/checkpoint.h"
#include "weights/names/name_map.h"

namespace quire {

struct LoraOptions {
  DType dtype = DType::kBF16;  // that the updates are kept in
  // Rows of q and k lie in pairs, where the adapter's lie in halves (GGUF files of Llama's kin).
  bool pairs_rows = false;
  Isa isa = Isa::kPortable;  // that the model's weights are packed for
  // Of a stage of a pipeline: its layers of how many. What changes another one is that stage's to
  // read, and to refuse.
  RowRange own_layers = {};
  int64_t num_layers = 0;  // 0: all layers are here
};

// What every batch of a model keeps to.
struct LoraLimits {
  int64_t max_ranks = 0;  // of the parts of one matrix together; 0: no adapters
  DType dtype = DType::kBF16;
  int64_t max_inputs = 0;  // of one matrix
  int64_t max_outputs = 0;
};

// Owns its memory. Immutable once loaded; any thread.
class LoraWeights {
 public:
  // `names`: of the modules of the Hugging Face model. kInvalidArgument: the adapter changes a
  // module that the model does not have, or that takes no updates, or has another shape.
  static Result<LoraWeights> load(const LoraFiles& files, std::span<const WeightSlot> slots,
                                  const NameMap& names, const LoraOptions& options);

  // Of a matrix of the slots; empty: none.
  std::span<const LoraPart> parts(const MatrixWeight& matrix) const;
  // Whether parts have gains for what the matrix itself gives (DoRA).
  bool scales_base() const { return scales_base_; }
  int64_t num_bytes() const { return arena_.capacity_bytes(); }

  // What an adapter of every matrix with this rank takes at most.
  static int64_t most_bytes(std::span<const WeightSlot> slots, int64_t rank, DType dtype);
  // For adapters of at most this rank.
  static LoraLimits limits(std::span<const WeightSlot> slots, int64_t rank, DType dtype);

 private:
  Arena arena_;
  bool scales_base_ = false;
  std::unordered_map<const MatrixWeight*, std::vector<LoraPart>> parts_;
};

}  // namespace quire
