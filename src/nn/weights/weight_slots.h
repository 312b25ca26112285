// WeightSlots creates, one by one, the slots through which a checkpoint fills a model's weights
// (weights/checkpoint.h).
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
  // How the layers' matrices are packed if there is no checkpoint: random weights for measurements.
  // n and k are those of each matrix.
  std::optional<WeightSpec> layer_packing = {};
  // This rank's share of the matrices' outputs and of everything per head.
  RankShare share = {};
  bool has_embedding = true;  // false: hidden states come from another stage (exec/stages)
};

// Slots point at weights, which must not move.
class WeightSlots {
 public:
  explicit WeightSlots(const WeightOptions& options) : options_(options) {}

  const WeightOptions& options() const { return options_; }
  // Returns all slots. load_checkpoint() or fill_random() must fill them before the first forward
  // pass.
  const std::vector<WeightSlot>& all() const { return slots_; }
  size_t count() const { return slots_.size(); }
  // from() returns the slots from `first_slot` on, last() the last one; valid until another one is
  // added.
  std::span<WeightSlot> from(size_t first_slot) { return std::span(slots_).subspan(first_slot); }
  WeightSlot& last() { return slots_.back(); }

  void add_matrix(int32_t layer, std::vector<SlotPart> parts, std::optional<TensorRole> fused,
                  int64_t columns, LinearWeights& out, bool bias);
  void add_matrix(int32_t layer, SlotPart part, int64_t columns, LinearWeights& out,
                  bool bias = false);
  // Adds a matrix with few outputs and a large influence, such as a router's. It keeps its stored
  // type and is multiplied in float32.
  void add_exact_matrix(int32_t layer, SlotPart part, int64_t columns, LinearWeights& out,
                        bool bias);
  // With `bias`, the slot is the bias of the matrix of that name instead of the tensor of that
  // name.
  void add_vector(int32_t layer, std::vector<SlotPart> parts, std::optional<TensorRole> fused,
                  bool bias, const float*& out);
  void add_vector(int32_t layer, SlotPart part, const float*& out, bool bias = false);
  void add_table(TensorRole role, int64_t rows, int64_t columns, TableWeight& out);
  // Restricts the slots from `first_slot` on to these rows, for a rank's share.
  void keep(size_t first_slot, const std::vector<RowRange>& rows);

 private:
  WeightOptions options_;
  std::vector<WeightSlot> slots_;
};

}  // namespace quire
