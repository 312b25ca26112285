#include "weights/weight_packing.h"

#include <cstring>
#include <vector>

#include "kernels/api/placement.h"
#include "weights/quant/quant_matrix.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

// Packs rows of codes q + 128, with one scale each, as signed bytes.
void pack_int8(Stream& stream, const PackedWeight& weight, ScaleType type, const QuantRows& rows) {
  std::vector<uint8_t> codes(rows.codes, rows.codes + rows.num_rows * weight.spec.k);
  for (uint8_t& code : codes) code ^= 0x80u;
  const DType dtype = type == ScaleType::kF16    ? DType::kF16
                      : type == ScaleType::kBF16 ? DType::kBF16
                                                 : DType::kF32;
  std::vector<float> scales(static_cast<size_t>(rows.num_rows));
  for (int64_t i = 0; i < rows.num_rows; ++i) {
    scales[static_cast<size_t>(i)] =
        read_element(static_cast<const std::byte*>(rows.scales), dtype, i);
  }
  pack_weight_rows(stream, weight,
                   {.rows = codes.data(),
                    .dtype = DType::kI8,
                    .first_row = rows.first_row,
                    .num_rows = rows.num_rows,
                    .transposed = false,
                    .scales = scales.data()});
}

}  // namespace

// Weights of int8 that were made for int8 activations are multiplied as integers, all others by
// value. If int8 activations were requested, weights that cannot use them are multiplied with
// bfloat16 ones.
Result<WeightSpec> HostPacking::choose(const WeightSpec& stored, QuantActivations activations) {
  const QuantSpec& quant = stored.quant;
  if (!quant.is_quantized()) return stored;
  const bool one_scale_per_row = quant.group_size >= stored.k;
  if (activations != QuantActivations::kFloat && quant.codebook == Codebook::kLinear &&
      quant.bits == 8 && quant.offset == kInt8Offset && one_scale_per_row &&
      !quant.has_column_order && stored.k <= kMaxInt8K) {
    return WeightSpec{
        .n = stored.n, .k = stored.k, .dtype = DType::kI8, .compute = ComputeType::kInt8};
  }
  WeightSpec chosen = stored;
  if (stored.compute == ComputeType::kInt8 && !takes_int8_activations(stored)) {
    chosen.compute = ComputeType::kBF16;
  }
  QUIRE_RETURN_IF_ERROR(check_quant(chosen));
  return chosen;
}

int64_t HostPacking::packed_bytes(const WeightSpec& spec) const {
  return packed_weight_bytes(spec);
}

bool HostPacking::may_stack(const WeightSpec& spec, int64_t /*rows*/) const {
  return !spec.quant.has_column_order;
}

void HostPacking::place(const PackedWeight& weight, int num_blocks) {
  touch_weight(stream_, weight, linear_gates(stream_, weight.spec) ? num_blocks : 1);
}

void HostPacking::pack_weight_rows(const PackedWeight& weight, const WeightRows& rows) {
  quire::pack_weight_rows(stream_, weight, rows);
}

void HostPacking::pack_quant_rows(const PackedWeight& weight, const QuantSpec& stored,
                                  const QuantRows& rows) {
  if (weight.spec.dtype == DType::kI8) {
    return pack_int8(stream_, weight, stored.scale_type, rows);
  }
  quire::pack_quant_rows(stream_, weight, rows);
}

void HostPacking::pack_quant_columns(const PackedWeight& weight, const int32_t* source) {
  quire::pack_quant_columns(weight, source);
}

void HostPacking::write(void* to, const void* from, int64_t num_bytes) {
  std::memcpy(to, from, static_cast<size_t>(num_bytes));
}

}  // namespace quire
