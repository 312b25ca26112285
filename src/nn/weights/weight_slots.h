// The slots through which a checkpoint fills a model's weights (weights/checkpoint.h), made one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "kernels/api/linear.h"
#include "nn/spec/rank_share_spec.h"
#include "nn/weights/linear_weights.h"
#include "weights/checkpoint.h"

namespace quire {

struct WeightOptions {
  DType dtype = DType::kBF16;  // of float matrices and tables; norms and biases are float32
  ComputeType compute = ComputeType::kF32;
  ComputeType quant_compute = ComputeType::kF32;  // of matrices that the checkpoint quantized
  // How the matrices of layers are packed when no checkpoint says it: random weights for
  // measurements. n and k are each matrix's own.
  std::optional<WeightSpec> layer_packing = {};
  RankShare share = {};       // of the matrices' outputs, and of what belongs to heads
  bool has_embedding = true;  // off: hidden states come from elsewhere (exec/stages)
};

// Slots point at weights, which stay where they are.
class WeightSlots {
 public:
  explicit WeightSlots(const WeightOptions& options) : options_(options) {}

  const WeightOptions& options() const { return options_; }
  // What must be filled, by load_checkpoint() or fill_random(), before the first forward pass.
  const std::vector<WeightSlot>& all() const { return slots_; }
  size_t count() const { return slots_.size(); }
  // The slots from `first_slot` on, and the last one: valid until the next one is added.
  std::span<WeightSlot> from(size_t first_slot) { return std::span(slots_).subspan(first_slot); }
  WeightSlot& last() { return slots_.back(); }

  void add_matrix(int32_t layer, std::vector<SlotPart> parts, std::optional<TensorRole> fused,
                  int64_t columns, LinearWeights& out, bool bias);
  void add_matrix(int32_t layer, SlotPart part, int64_t columns, LinearWeights& out,
                  bool bias = false);
  // Adds the router's matrix and the like, which have few outputs that decide much. They stay as
  // they are stored and are multiplied in float32.
  void add_exact_matrix(int32_t layer, SlotPart part, int64_t columns, LinearWeights& out,
                        bool bias);
  // `bias` says that the slot is the bias of the matrix of that name, and not the tensor of that
  // name itself.
  void add_vector(int32_t layer, std::vector<SlotPart> parts, std::optional<TensorRole> fused,
                  bool bias, const float*& out);
  void add_vector(int32_t layer, SlotPart part, const float*& out, bool bias = false);
  void add_table(TensorRole role, int64_t rows, int64_t columns, TableWeight& out);
  // The slots from `first_slot` on are filled with these rows alone, where ranks share the model.
  void keep(size_t first_slot, const std::vector<RowRange>& rows);

 private:
  WeightOptions options_;
  std::vector<WeightSlot> slots_;
};

}  // namespace quire
