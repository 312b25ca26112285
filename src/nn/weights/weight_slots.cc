#include "nn/weights/weight_slots.h"

#include <utility>

namespace quire {

void WeightSlots::add_exact_matrix(int32_t layer, SlotPart part, int64_t columns,
                                   LinearWeights& out, bool bias) {
  add_matrix(layer, part, columns, out);
  WeightSlot& slot = slots_.back();
  out.weight.parts.front().spec = {
      .n = part.rows, .k = columns, .dtype = options_.dtype, .compute = ComputeType::kF32};
  slot.keeps_dtype = true;
  slot.quant_compute = ComputeType::kF32;
  if (bias) add_vector(layer, part, out.bias, true);
}

void WeightSlots::add_matrix(int32_t layer, std::vector<SlotPart> parts,
                             std::optional<TensorRole> fused, int64_t columns, LinearWeights& out,
                             bool bias) {
  WeightSlot slot{.layer = layer,
                  .bias = false,
                  .parts = std::move(parts),
                  .fused_role = fused,
                  .matrix = &out.weight,
                  .vector = nullptr,
                  .table = nullptr,
                  .table_columns = 0};
  WeightSpec spec{.dtype = options_.dtype, .compute = options_.compute};
  if (layer >= 0 && options_.layer_packing) spec = *options_.layer_packing;
  spec.n = slot.rows();
  spec.k = columns;
  out.weight = {.n = spec.n, .k = spec.k, .parts = {{spec, nullptr}}};
  slot.quant_compute = options_.quant_compute;
  slots_.push_back(slot);
  if (bias) add_vector(layer, std::move(slot.parts), fused, true, out.bias);
}

void WeightSlots::add_matrix(int32_t layer, SlotPart part, int64_t columns, LinearWeights& out,
                             bool bias) {
  add_matrix(layer, std::vector<SlotPart>{part}, std::nullopt, columns, out, bias);
}

void WeightSlots::add_vector(int32_t layer, SlotPart part, const float*& out, bool bias) {
  add_vector(layer, std::vector<SlotPart>{part}, std::nullopt, bias, out);
}

void WeightSlots::keep(size_t first_slot, const std::vector<RowRange>& rows) {
  if (options_.share.is_whole()) return;
  for (size_t i = first_slot; i < slots_.size(); ++i) {
    WeightSlot& slot = slots_[i];
    slot.kept = rows;
    if (slot.matrix == nullptr) continue;
    slot.matrix->n = slot.kept_rows();
    slot.matrix->parts.front().spec.n = slot.kept_rows();
  }
}

void WeightSlots::add_vector(int32_t layer, std::vector<SlotPart> parts,
                             std::optional<TensorRole> fused, bool bias, const float*& out) {
  slots_.push_back({.layer = layer,
                    .bias = bias,
                    .parts = std::move(parts),
                    .fused_role = fused,
                    .matrix = nullptr,
                    .vector = &out,
                    .table = nullptr,
                    .table_columns = 0});
}

void WeightSlots::add_table(TensorRole role, int64_t rows, int64_t columns, TableWeight& out) {
  out.dtype = options_.dtype;
  slots_.push_back({.layer = -1,
                    .bias = false,
                    .parts = {{role, rows}},
                    .fused_role = std::nullopt,
                    .matrix = nullptr,
                    .vector = nullptr,
                    .table = &out,
                    .table_columns = columns});
}

}  // namespace quire
