#include "kernels/quant_rows.h"

#include <algorithm>

#include "kernels/cpu/quant/quant_layout.h"

namespace quire {
namespace {

constexpr int32_t kTableOffset = 128;  // for table values, which become 8-bit integers

int32_t simpler_bits(const QuantSpec& quant) {
  if (is_integer_table(quant.codebook)) return 8;
  return quant.bits <= 4 ? 4 : 8;
}

// Returns element i of an array of `type`.
float value_at(ScaleType type, const void* array, int64_t i) {
  return cpu::scale_value(type, static_cast<const uint8_t*>(array) + i * cpu::size_bytes(type));
}

ScaleType min_type(const QuantSpec& quant) {
  return quant.scale_type == ScaleType::kI8 ? ScaleType::kU8 : quant.scale_type;
}

// Computes the scales or minima of all groups of a row, with both levels multiplied.
void flatten_row(const QuantSpec& quant, int64_t columns, int64_t row, ScaleType type,
                 const void* array, const void* super_array, float* out) {
  const int64_t groups = quant.num_groups(columns);
  const int64_t supers = quant.num_super_groups(columns);
  const int64_t per_super =
      supers <= 1 ? groups : quant.super_group_size / std::max<int64_t>(1, quant.group_size);
  for (int64_t group = 0; group < groups; ++group) {
    out[group] = value_at(type, array, row * groups + group);
    if (supers == 0) continue;
    const int64_t super = std::min(group / per_super, supers - 1);
    out[group] *= value_at(quant.super_scale_type, super_array, row * supers + super);
  }
}

}  // namespace

QuantSpec simpler_quant(const QuantSpec& stored) {
  QuantSpec simpler = stored;
  simpler.bits = simpler_bits(stored);
  if (is_integer_table(stored.codebook)) {
    simpler.codebook = Codebook::kLinear;
    simpler.offset = kTableOffset;
  }
  simpler.scale_type = ScaleType::kF32;
  simpler.super_scale_type = ScaleType::kNone;
  simpler.super_group_size = 0;
  return simpler;
}

QuantRows SimplerRows::of(const QuantRows& rows) {
  QuantRows simpler = rows;
  const int64_t groups = stored_.num_groups(columns_);
  const auto flatten = [&](ScaleType type, const void* array, const void* super_array,
                           std::vector<float>& out) {
    out.resize(static_cast<size_t>(rows.num_rows * groups));
    for (int64_t row = 0; row < rows.num_rows; ++row)
      flatten_row(stored_, columns_, row, type, array, super_array, out.data() + row * groups);
    return out.data();
  };
  simpler.scales = flatten(stored_.scale_type, rows.scales, rows.super_scales, scales_);
  if (stored_.zero_kind == ZeroKind::kMin)
    simpler.mins = flatten(min_type(stored_), rows.mins, rows.super_mins, mins_);
  simpler.super_scales = simpler.super_mins = nullptr;
  if (is_integer_table(stored_.codebook)) {
    const cpu::CodeValues values = cpu::code_values(stored_);
    codes_.resize(static_cast<size_t>(rows.num_rows * columns_));
    for (size_t i = 0; i < codes_.size(); ++i) {
      codes_[i] =
          static_cast<uint8_t>(static_cast<int32_t>(values.f32[rows.codes[i]]) + kTableOffset);
    }
    simpler.codes = codes_.data();
  }
  return simpler;
}

QuantRows part_of(const QuantRows& rows, const WeightSpec& spec, int64_t begin, int64_t count) {
  const QuantSpec& quant = spec.quant;
  const int64_t groups = quant.num_groups(spec.k);
  const int64_t supers = quant.num_super_groups(spec.k);
  const auto moved = [&](const void* array, int64_t row_bytes) -> const void* {
    return array == nullptr ? nullptr : static_cast<const uint8_t*>(array) + begin * row_bytes;
  };
  const int64_t scale_bytes = groups * cpu::size_bytes(quant.scale_type);
  const int64_t super_bytes = supers * cpu::size_bytes(quant.super_scale_type);
  return {.codes = rows.codes + begin * spec.k,
          .scales = moved(rows.scales, scale_bytes),
          .mins = moved(rows.mins, scale_bytes),
          .zeros = static_cast<const uint8_t*>(moved(rows.zeros, groups)),
          .super_scales = moved(rows.super_scales, super_bytes),
          .super_mins = moved(rows.super_mins, super_bytes),
          .first_row = rows.first_row + begin,
          .num_rows = count};
}

void dequantize_rows(const WeightSpec& spec, const QuantRows& rows, float* out) {
  const QuantSpec& quant = spec.quant;
  const int64_t groups = quant.num_groups(spec.k);
  const cpu::CodeValues values = cpu::code_values(quant);
  std::vector<float> scales(static_cast<size_t>(groups)), mins(scales.size(), 0.0f);
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    flatten_row(quant, spec.k, row, quant.scale_type, rows.scales, rows.super_scales,
                scales.data());
    if (quant.zero_kind == ZeroKind::kMin)
      flatten_row(quant, spec.k, row, min_type(quant), rows.mins, rows.super_mins, mins.data());
    const uint8_t* codes = rows.codes + row * spec.k;
    for (int64_t k = 0; k < spec.k; ++k) {
      const int64_t group = std::min(k / quant.group_size, groups - 1);
      float value = values.f32[codes[k]];
      if (quant.zero_kind == ZeroKind::kInteger)
        value -= static_cast<float>(rows.zeros[row * groups + group]);
      value *= scales[static_cast<size_t>(group)];
      out[row * spec.k + k] = value - mins[static_cast<size_t>(group)];
    }
  }
}

}  // namespace quire
