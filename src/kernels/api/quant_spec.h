// A QuantSpec says what the numbers of a weight-only quantized matrix mean. The checkpoint readers
// in weights/ translate every format on disk exactly into these terms, and the kernels read nothing
// else.
//
// The weight of output n and input k has a code q of `bits` bits and is in group g = k / group_size
// of its row:
//   c     = codebook[q]                       an integer or a small float, exact in bf16
//   scale = scales[n, g]                      one level, or
//           scales[n, g] * super_scales[n, s] two levels, s = k / super_group_size
//   value = scale * (c - zeros[n, g])         ZeroKind::kNone (zeros are 0) and kInteger
//         = scale * c - min                   ZeroKind::kMin, min in one or two levels as the scale
// in float, rounded after each operation. kernels/cpu/quant/README.md lists the formats on disk.
#pragma once

#include <cstdint>

namespace quire {

enum class Codebook : uint8_t {
  kLinear,  // c = q - offset
  kIq4Nl,   // 4 bits: the 16 values of GGUF's IQ4_NL
  // 4 bits: the levels of GGUF's IQ types. In kIq2, kIq3Xxs and kIq3S bit 3 of a code is the sign.
  kIq1,     // -9 -1 7 and -7 1 9, in eighths: -1, 0 and 1, minus or plus an eighth
  kIq2,     // 8 25 43
  kIq3Xxs,  // 4 12 20 28 36 44 52 62
  kIq3S,    // 1 3 5 7 9 11 13 15
  kE2M1,    // 4 bits: FP4, sign in bit 3: 0 0.5 1 1.5 2 3 4 6
  kE4M3,    // 8 bits: FP8 e4m3fn. Checkpoint readers must refuse the codes of NaN, 0x7f and 0xff.
};

// Returns whether the values of the codebook are integers that a table lists.
constexpr bool is_integer_table(Codebook codebook) {
  return codebook >= Codebook::kIq4Nl && codebook <= Codebook::kIq3S;
}

enum class ScaleType : uint8_t {
  kNone,
  // The stored number is the scale itself.
  kF32,
  kF16,
  kBF16,
  kE8M0,  // 2^(e - 127), one byte
  // The stored number is a code, one byte in QuantRows: the scale is the code times the
  // super-scale.
  kU4,    // 0 … 15; with ZeroKind::kMin two of them share a byte when packed
  kU8,    // 0 … 255
  kI8,    // -128 … 127
  kE4M3,  // FP8 e4m3fn
};

enum class ZeroKind : uint8_t {
  kNone,
  kInteger,  // one byte per group
  kMin,  // subtracted after scaling; of scale_type, or for code scales a u8 code times super_mins
};

struct QuantSpec {
  int32_t bits = 0;  // 2, 3, 4, 5, 6 or 8; 0: not quantized, the rest means nothing
  Codebook codebook = Codebook::kLinear;
  int32_t offset = 0;      // for kLinear: 8 in Q4_0, 128 for int8 stored as q + 128
  int64_t group_size = 0;  // along K: 16, a multiple of 32, or >= K (one scale per row)
  ScaleType scale_type = ScaleType::kF32;
  ZeroKind zero_kind = ZeroKind::kNone;
  // The second level: kF16 or kF32 where scales are codes, otherwise kNone.
  ScaleType super_scale_type = ScaleType::kNone;
  int64_t super_group_size = 0;  // a multiple of group_size, or >= K
  // Columns are stored in an order of their own (desc_act of GPTQ), which pack_quant_columns()
  // gives.
  bool has_column_order = false;

  bool is_quantized() const { return bits != 0; }
  bool has_two_levels() const { return super_scale_type != ScaleType::kNone; }
  // Return the groups in a row of k weights, of which the last may be partial.
  int64_t num_groups(int64_t k) const { return pieces(k, group_size); }
  int64_t num_super_groups(int64_t k) const {
    return has_two_levels() ? pieces(k, super_group_size) : 0;
  }
  friend bool operator==(const QuantSpec&, const QuantSpec&) = default;

 private:
  static int64_t pieces(int64_t k, int64_t size) {
    return size >= k || size < 1 ? 1 : (k + size - 1) / size;
  }
};

}  // namespace quire
