#include "kernels/cuda/quant_weight.h"

#include <cmath>
#include <cstring>

#include "base/check.h"

namespace quire::cuda {
namespace {

template <typename T>
T load_element(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(data) + i * int64_t{sizeof(T)}, sizeof value);
  return value;
}

float scale_at(ScaleType type, const void* scales, int64_t i) {
  switch (type) {
    case ScaleType::kF32:
      return load_element<float>(scales, i);
    case ScaleType::kF16:
      return to_float(load_element<float16>(scales, i));
    case ScaleType::kBF16:
      return to_float(load_element<bfloat16>(scales, i));
    case ScaleType::kE8M0:
      return std::ldexp(1.0f, load_element<uint8_t>(scales, i) - 127);
    default:
      QUIRE_CHECK(false, "[pack] scales of type {}", static_cast<int>(type));
  }
  return 0.0f;
}

Status refused(const char* what) {
  return {StatusCode::kUnimplemented, fmt::format("cuda: quantized weight: expected {}", what)};
}

}  // namespace

Status check_quant_weight(const WeightSpec& spec) {
  const QuantSpec& quant = spec.quant;
  QUIRE_RETURN_IF_ERROR(check_quant(spec));
  const bool is_linear = quant.codebook == Codebook::kLinear;
  if ((quant.bits != 4 && quant.bits != 8) || quant.codebook == Codebook::kIq4Nl)
    return refused("integers of 4 or 8 bits, FP8 e4m3 or FP4 e2m1");
  if (quant.group_size < spec.k && quant.group_size % kQuantUnitInputs != 0)
    return refused("groups of a multiple of 32 inputs or whole rows");
  if (quant.has_two_levels() || quant.zero_kind == ZeroKind::kMin ||
      (!is_linear && quant.zero_kind != ZeroKind::kNone))
    return refused("scales of one level, and zero points of integers");
  return {};
}

QuantWeightLayout quant_weight_layout(const WeightSpec& spec) {
  QuantWeightLayout layout;
  layout.num_tiles = (spec.n + kQuantTileOutputs - 1) / kQuantTileOutputs;
  layout.num_chunks = (spec.k + kQuantTileInputs - 1) / kQuantTileInputs;
  const int64_t num_units = layout.num_chunks * kQuantTileInputs / kQuantUnitInputs;
  layout.units_per_group =
      spec.quant.group_size >= spec.k ? num_units : spec.quant.group_size / kQuantUnitInputs;
  layout.num_groups = (num_units + layout.units_per_group - 1) / layout.units_per_group;
  layout.bits = spec.quant.bits;
  layout.scales_at = layout.num_tiles * layout.num_chunks * layout.chunk_bytes();
  const int64_t scales = layout.num_groups * layout.padded_outputs();
  layout.zeros_at = layout.scales_at + scales * int64_t{sizeof(float)};
  layout.order_at = (layout.zeros_at + scales + 63) / 64 * 64;
  const int64_t order = spec.quant.has_column_order ? spec.k * int64_t{sizeof(int32_t)} : 0;
  layout.num_bytes = layout.order_at + (order + 63) / 64 * 64;
  return layout;
}

QuantCodeAt quant_code_at(int32_t bits, int32_t output, int32_t input) {
  const int32_t t = input % 32 / 8;
  const int32_t product = input / 32 * 2 + input % 8 / 4;
  const int32_t half = input % 4 / 2;  // registers 0, 1 or 2, 3
  const int32_t element = input % 2;   // of the register's two
  const int32_t upper = output / 8;    // registers 1, 3
  const int32_t lane = output % 8 * 4 + t;
  if (bits == 4) {  // a word per product: register r at bits 4 r, the second element 16 above
    const int32_t bit = 4 * (2 * half + upper) + 16 * element;
    return {lane * 16 + product * 4 + bit / 8, bit % 8};
  }
  // Two words per product: registers 0, 1 and 2, 3, taking turns by bytes.
  return {product / 2 * 512 + lane * 16 + product % 2 * 8 + half * 4 + upper + 2 * element, 0};
}

void pack_quant_weight(const PackedWeight& weight, const QuantRows& rows) {
  const WeightSpec& spec = weight.spec;
  const QuantSpec& quant = spec.quant;
  const QuantWeightLayout layout = quant_weight_layout(spec);
  const int64_t groups = quant.num_groups(spec.k);  // the padding may make one more
  QUIRE_CHECK(rows.first_row >= 0 && rows.num_rows >= 0 && rows.num_rows <= spec.n - rows.first_row,
              "[pack] rows [{}, {} + {}) of {}", rows.first_row, rows.first_row, rows.num_rows,
              spec.n);
  auto* base = static_cast<uint8_t*>(weight.data);
  auto* scales = reinterpret_cast<float*>(base + layout.scales_at);
  for (int64_t i = 0; i < rows.num_rows; ++i) {
    const int64_t n = rows.first_row + i;
    const auto zero_at = [&](int64_t group) -> uint8_t {
      if (quant.zero_kind == ZeroKind::kInteger) return rows.zeros[i * groups + group];
      return static_cast<uint8_t>(quant.offset);
    };
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t at = group * layout.padded_outputs() + n;
      scales[at] = scale_at(quant.scale_type, rows.scales, i * groups + group);
      base[layout.zeros_at + at] = zero_at(group);
    }
    const int64_t padded = layout.num_chunks * kQuantTileInputs;
    const int64_t group_inputs = layout.units_per_group * kQuantUnitInputs;
    for (int64_t k = 0; k < padded; ++k) {
      const int64_t group = k / group_inputs;
      uint8_t code = 0;  // in the padding whatever stands for 0
      if (k < spec.k) {
        code = rows.codes[i * spec.k + k];
      } else if (group < groups) {
        code = zero_at(group);
      }
      const int64_t chunk = k / kQuantTileInputs;
      QUIRE_CHECK(code >> quant.bits == 0, "[pack] code {} of {} bits", code, quant.bits);
      const QuantCodeAt to = quant_code_at(quant.bits, static_cast<int32_t>(n % kQuantTileOutputs),
                                           static_cast<int32_t>(k % kQuantTileInputs));
      const int64_t tile = n / kQuantTileOutputs * layout.num_chunks + chunk;
      base[tile * layout.chunk_bytes() + to.byte] |= static_cast<uint8_t>(code << to.shift);
    }
  }
}

void pack_quant_weight_order(const PackedWeight& weight, const int32_t* source) {
  const QuantWeightLayout layout = quant_weight_layout(weight.spec);
  QUIRE_CHECK(weight.spec.quant.has_column_order, "[pack] the columns have no order of their own");
  for (int64_t k = 0; k < weight.spec.k; ++k)
    QUIRE_CHECK(source[k] >= 0 && source[k] < weight.spec.k, "[pack] column {}", source[k]);
  std::memcpy(static_cast<uint8_t*>(weight.data) + layout.order_at, source,
              static_cast<size_t>(weight.spec.k) * sizeof(int32_t));
}

}  // namespace quire::cuda
