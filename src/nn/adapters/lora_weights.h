// LoraWeights is a LoRA adapter in the layout of the kernels: its low-rank updates of a model's
// matrices, and the modules that it replaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "kernels/api/experts.h"
#include "kernels/api/lora.h"
#include "nn/adapters/lora_options.h"
#include "nn/adapters/replaced_modules.h"
#include "nn/spec/lora_limits.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"
#include "weights/adapters/lora_files.h"
#include "weights/checkpoint.h"
#include "weights/names/name_map.h"

namespace quire {

// Owns its memory until move_to(). It is immutable once it is loaded and moved; then any thread may
// read it.
class LoraWeights {
 public:
  // `names` maps to the modules of the Hugging Face model. kInvalidArgument: the adapter changes a
  // module that the model does not have, that cannot be changed, or that has another shape.
  // kResourceExhausted: it takes more than options.max_bytes.
  static Result<LoraWeights> load(const LoraFiles& files, const DecoderWeights& weights,
                                  const NameMap& names, const LoraOptions& options);

  // Returns the updates of a matrix of the model, or none.
  std::span<const LoraPart> parts(const MatrixWeight& matrix) const;
  // Returns the updates of a layer's experts, by slot, or none.
  std::span<const ExpertUpdate> experts(size_t layer) const { return experts_[layer]; }
  bool changes_experts() const { return changes_experts_; }
  const ReplacedModules& replaced() const { return replaced_; }
  // Returns whether some parts scale the matrix's own outputs (DoRA).
  bool scales_base() const { return scales_base_; }
  int64_t num_bytes() const { return num_bytes_; }
  // Returns whether the adapter has nothing but updates of matrices.
  bool has_updates_only() const { return !changes_experts_ && replaced_.is_empty(); }

  // Returns all of its memory, as load() left it.
  std::span<const std::byte> bytes() const {
    return {arena_.data(), static_cast<size_t>(num_bytes_)};
  }
  // Makes it point to `to`, where the caller keeps a copy of bytes(), and frees its own memory.
  // Only for adapters with has_updates_only().
  void move_to(std::byte* to);

  // The most memory of an adapter with this rank: `dense` for all matrices but experts and for the
  // embeddings, `experts` for all experts. In the layout of GPUs, which support no updates of
  // experts and embeddings, these are not counted.
  struct MostBytes {
    int64_t dense = 0;
    int64_t experts = 0;
  };
  static MostBytes most_bytes(std::span<const WeightSlot> slots, int64_t rank, DType dtype,
                              LoraLayout layout);
  // Returns the limits of a batch with adapters of at most this rank.
  static LoraLimits limits(std::span<const WeightSlot> slots, int64_t rank, DType dtype,
                           LoraLayout layout);

 private:
  void list_experts(const DecoderWeights& weights);

  Arena arena_;
  int64_t num_bytes_ = 0;
  bool scales_base_ = false;
  bool changes_experts_ = false;
  std::unordered_map<const MatrixWeight*, std::vector<LoraPart>> parts_;
  std::vector<std::vector<ExpertUpdate>> experts_;  // by layer; points into parts_
  ReplacedModules replaced_;
};

}  // namespace quire
