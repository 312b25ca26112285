#include "kernels/cpu/quant/quant_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu/kernel_tables.h"

namespace quire {
namespace cpu {
namespace {

constexpr int64_t kLine = 64;

template <typename T>
T load_unaligned(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Returns the value of an FP8 e4m3fn code. The codes of NaN give 480, as their bits say; checkpoint
// readers refuse them.
float e4m3_value(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = (code & 7) + (exponent == 0 ? 0 : 8);
  const float magnitude = std::ldexp(static_cast<float>(mantissa), std::max(exponent, 1) - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

constexpr std::array<float, 16> kIq4NlValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::array<float, 16> kIq1Values = {-9, -1, 7, -7, 1, 9};
constexpr std::array<float, 16> kIq2Values = {8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43};
constexpr std::array<float, 16> kIq3XxsValues = {4,  12,  20,  28,  36,  44,  52,  62,
                                                 -4, -12, -20, -28, -36, -44, -52, -62};
constexpr std::array<float, 16> kIq3SValues = {1,  3,  5,  7,  9,  11,  13,  15,
                                               -1, -3, -5, -7, -9, -11, -13, -15};
constexpr std::array<float, 8> kE2M1Values = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

float code_value(const QuantSpec& spec, int code) {
  switch (spec.codebook) {
    case Codebook::kLinear:
      return static_cast<float>(code - spec.offset);
    case Codebook::kIq4Nl:
      return kIq4NlValues[code];
    case Codebook::kIq1:
      return kIq1Values[code];
    case Codebook::kIq2:
      return kIq2Values[code];
    case Codebook::kIq3Xxs:
      return kIq3XxsValues[code];
    case Codebook::kIq3S:
      return kIq3SValues[code];
    case Codebook::kE2M1:
      return code < 8 ? kE2M1Values[code] : -kE2M1Values[code - 8];
    case Codebook::kE4M3:
      return e4m3_value(static_cast<uint8_t>(code));
  }
  return 0.0f;
}

bool is_table4(const QuantSpec& spec) {
  return spec.codebook != Codebook::kLinear && spec.bits == 4;
}

// A table of 4 bits as integers: values are counted from the least, in a unit that divides all of
// them.
struct IntegerTable {
  float unit;
  float least;
  int32_t step(float value) const { return static_cast<int32_t>((value - least) / unit); }
};
IntegerTable integer_table(const QuantSpec& spec) {
  IntegerTable table{.unit = spec.codebook == Codebook::kE2M1 ? 0.5f : 1.0f, .least = 0.0f};
  for (int code = 0; code < 16; ++code) table.least = std::min(table.least, code_value(spec, code));
  return table;
}

// Returns QuantLayout::integer_offset. For a table, the look-up of a word gives the table's first
// entry in its upper byte, which the offset contains.
int32_t integer_offset(const QuantSpec& spec) {
  if (!is_table4(spec)) return spec.offset;
  const IntegerTable table = integer_table(spec);
  return 256 * table.step(code_value(spec, 0)) + table.step(0.0f);
}

bool is_code(ScaleType type) {
  return type == ScaleType::kU4 || type == ScaleType::kU8 || type == ScaleType::kI8 ||
         type == ScaleType::kE4M3;
}

}  // namespace

int64_t size_bytes(ScaleType type) {
  switch (type) {
    case ScaleType::kNone:
      return 0;
    case ScaleType::kF32:
      return 4;
    case ScaleType::kF16:
    case ScaleType::kBF16:
      return 2;
    default:
      return 1;
  }
}

float scale_value(ScaleType type, const uint8_t* stored) {
  switch (type) {
    case ScaleType::kF32:
      return load_unaligned<float>(stored);
    case ScaleType::kF16:
      return to_float(float16{load_unaligned<uint16_t>(stored)});
    case ScaleType::kBF16:
      return to_float(bfloat16{load_unaligned<uint16_t>(stored)});
    case ScaleType::kE8M0:
      return std::ldexp(1.0f, *stored - 127);
    case ScaleType::kI8:
      return static_cast<float>(static_cast<int8_t>(*stored));
    case ScaleType::kE4M3:
      return e4m3_value(*stored);
    case ScaleType::kNone:
    case ScaleType::kU4:
    case ScaleType::kU8:
      break;
  }
  return static_cast<float>(*stored);
}

CodePlanes code_planes(int bits) {
  switch (bits) {
    case 3:
      return {2, {2, 1}};
    case 5:
      return {2, {4, 1}};
    case 6:
      return {2, {4, 2}};
    default:
      return {1, {bits, 0}};
  }
}

CodeValues code_values(const QuantSpec& spec) {
  CodeValues values{};
  if (is_table4(spec)) {
    const IntegerTable table = integer_table(spec);
    for (int i = 0; i < 64; ++i) {
      values.steps[i] = static_cast<uint8_t>(table.step(code_value(spec, i % 16)));
    }
  }
  for (int i = 0; i < 256; ++i) {
    const float value = code_value(spec, i & ((1 << spec.bits) - 1));
    values.f32[i] = value;
    values.bf16[i] = to_bfloat16(value).bits;
  }
  return values;
}

float largest_code_value(const QuantSpec& spec) {
  float largest = 0.0f;
  for (int code = 0; code < 1 << spec.bits; ++code) {
    const bool is_nan = spec.codebook == Codebook::kE4M3 && (code & 127) == 127;
    if (!is_nan) largest = std::max(largest, std::abs(code_value(spec, code)));
  }
  return largest;
}

QuantLayout quant_layout(const WeightSpec& spec) {
  const QuantSpec& quant = spec.quant;
  QuantLayout layout{.spec = quant, .k = spec.k, .padded_k = round_up(spec.k, kQuantChunk)};
  layout.strip_bytes = kLine * quant.bits;
  layout.integer_offset = integer_offset(quant);
  layout.integer_unit = is_table4(quant) ? integer_table(quant).unit : 1.0f;
  layout.group_size = quant.group_size >= spec.k ? layout.padded_k : quant.group_size;
  layout.num_groups = (layout.padded_k + layout.group_size - 1) / layout.group_size;
  layout.groups_per_span = std::max<int64_t>(1, kQuantSpan / layout.group_size);
  layout.span = layout.groups_per_span * layout.group_size;
  layout.num_spans = (layout.num_groups + layout.groups_per_span - 1) / layout.groups_per_span;
  const bool one_super = !quant.has_two_levels() || quant.super_group_size >= spec.k;
  layout.groups_per_super =
      one_super ? layout.num_groups : quant.super_group_size / layout.group_size;
  layout.supers_per_span =
      (layout.groups_per_span + layout.groups_per_super - 1) / layout.groups_per_super;
  const int64_t num_supers =
      (layout.num_groups + layout.groups_per_super - 1) / layout.groups_per_super;
  const bool has_min = quant.zero_kind == ZeroKind::kMin;
  int64_t zero_bytes = quant.zero_kind == ZeroKind::kInteger ? 1 : 0;
  if (has_min && quant.scale_type != ScaleType::kU4) zero_bytes = size_bytes(quant.scale_type);
  const int64_t super_bytes = size_bytes(quant.super_scale_type);
  int64_t at = layout.padded_k / kQuantChunk * layout.strip_bytes * kQuantStrips;
  const auto region = [&](int64_t count, int64_t element_bytes) {
    const int64_t start = at;
    at += round_up(count * kQuantPanel * element_bytes, kLine);
    return start;
  };
  layout.scales_at = region(layout.num_groups, size_bytes(quant.scale_type));
  layout.zeros_at = region(layout.num_groups, zero_bytes);
  layout.super_scales_at = region(num_supers, super_bytes);
  layout.super_mins_at = region(num_supers, has_min ? super_bytes : 0);
  layout.units_at = region(1, size_bytes(kUnitType));
  layout.panel_bytes = at;
  layout.group_scale_bytes = kQuantPanel * size_bytes(quant.scale_type);
  layout.group_zero_bytes = kQuantPanel * zero_bytes;
  layout.super_scale_bytes = kQuantPanel * super_bytes;
  return layout;
}

QuantWeightView quant_view(const PackedWeight& weight, const QuantLayout& layout) {
  QuantWeightView view{};
  view.panels = static_cast<uint8_t*>(weight.data);
  view.num_panels = (weight.spec.n + kQuantPanel - 1) / kQuantPanel;
  uint8_t* tail = view.panels + view.num_panels * layout.panel_bytes;
  view.values = reinterpret_cast<CodeValues*>(tail);
  if (layout.spec.has_column_order) {
    view.column_order = reinterpret_cast<int32_t*>(tail + sizeof(CodeValues));
  }
  return view;
}

int64_t quant_packed_bytes(const WeightSpec& spec) {
  const QuantLayout layout = quant_layout(spec);
  const int64_t order_bytes = spec.quant.has_column_order ? spec.k * int64_t{sizeof(int32_t)} : 0;
  return round_up(spec.n, kQuantPanel) / kQuantPanel * layout.panel_bytes +
         int64_t{sizeof(CodeValues)} + round_up(order_bytes, kLine);
}

}  // namespace cpu

bool takes_int8_activations(const WeightSpec& spec) {
  const QuantSpec& quant = spec.quant;
  return quant.is_quantized() && quant.codebook == Codebook::kLinear &&
         std::min(quant.group_size, spec.k) <= cpu::kMostIntegerGroup;
}

Status check_quant(const WeightSpec& spec) {
  const QuantSpec& quant = spec.quant;
  const auto groups_ok = [&](int64_t size, int64_t step) {
    return size >= spec.k || (size > 0 && size % step == 0);
  };
  if (spec.k < 1 || spec.n < 1 || spec.k > INT32_MAX) {
    return invalid_argument("quantized weight: expected 1 <= K < 2^31 and N >= 1, got [{}, {}]",
                            spec.n, spec.k);
  }
  if (quant.bits < 2 || quant.bits > 8 || quant.bits == 7) {
    return invalid_argument("quantized weight: expected 2, 3, 4, 5, 6 or 8 bits, got {}",
                            quant.bits);
  }
  const int32_t codebook_bits = quant.codebook == Codebook::kE4M3 ? 8 : 4;
  if (quant.codebook != Codebook::kLinear && quant.bits != codebook_bits) {
    return invalid_argument("quantized weight: expected {} bits for its codebook, got {}",
                            codebook_bits, quant.bits);
  }
  if (quant.offset < 0 || quant.offset >= 1 << quant.bits) {
    return invalid_argument("quantized weight: expected an offset in [0, {}), got {}",
                            1 << quant.bits, quant.offset);
  }
  if (quant.group_size != 16 && !groups_ok(quant.group_size, 32)) {
    return invalid_argument(
        "quantized weight: expected groups of 16, of a multiple of 32 or of all {} columns, got {}",
        spec.k, quant.group_size);
  }
  if (spec.compute == ComputeType::kInt8 && !takes_int8_activations(spec)) {
    return invalid_argument(
        "quantized weight: expected codes that stand for integers, in groups of at most {}, for "
        "activations of int8, got groups of {}",
        cpu::kMostIntegerGroup, quant.group_size);
  }
  if (quant.scale_type == ScaleType::kNone ||
      cpu::is_code(quant.scale_type) != quant.has_two_levels()) {
    return invalid_argument(
        "quantized weight: expected scales of one level, or scale codes with a super-scale");
  }
  if (quant.has_two_levels()) {
    if (quant.super_scale_type != ScaleType::kF16 && quant.super_scale_type != ScaleType::kF32) {
      return invalid_argument("quantized weight: expected super-scales of float16 or float32");
    }
    if (quant.group_size < 1 || !groups_ok(quant.super_group_size, quant.group_size)) {
      return invalid_argument(
          "quantized weight: expected super-groups of whole groups of {}, got {}", quant.group_size,
          quant.super_group_size);
    }
  }
  const bool float_codes =
      quant.scale_type == ScaleType::kE8M0 || quant.scale_type == ScaleType::kE4M3;
  if (quant.zero_kind == ZeroKind::kMin && float_codes) {
    return invalid_argument("quantized weight: minima need scales of another type than FP8");
  }
  return {};
}

}  // namespace quire
