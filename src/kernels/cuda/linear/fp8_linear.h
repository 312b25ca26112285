// Products of FP8 with FP8 on Hopper, for checkpoints made for such activations: e4m3 weights times
// activations that are rounded to e4m3 with scales of their own.
//
//   scales per tensor or output   a scale per row of activations; by cuBLASLt
//   scales of groups of inputs    a scale per row and group of 128 inputs; blocks of 128 x 128 are
//                                 groups too; by eight_bit_linear()
//
// Weights have a WeightSpec whose quant is e4m3 and whose dtype is kF8E4M3:
//   codes   [N, K]
//   scales  [N] float, or for groups [groups][N padded to 8]
// Groups come in pairs: an odd number of groups is padded by one with the scale 0.
#pragma once

#include <cstdint>

#include "kernels/api/linear.h"
#include "tensor/activations.h"

namespace quire::cuda {

inline constexpr int64_t kFp8GroupInputs = 128;

inline bool has_fp8_products(const WeightSpec& spec) {
  return spec.quant.is_quantized() && spec.dtype == DType::kF8E4M3;
}
// Returns whether these are products with scales of groups of inputs.
inline bool has_fp8_groups(const WeightSpec& spec) {
  return has_fp8_products(spec) && spec.quant.group_size < spec.k;
}

// Returns whether a weight can be stored like this, by its format and shape.
// supports_fp8_products() (kernels/api/fp8_support.h) says what the GPU and its libraries can do.
inline bool fits_fp8_products(const WeightSpec& spec) {
  constexpr int64_t kAlignment = 16;  // required by cuBLASLt's FP8
  const QuantSpec& quant = spec.quant;
  return quant.is_quantized() && quant.codebook == Codebook::kE4M3 && !quant.has_two_levels() &&
         !quant.has_column_order &&
         (quant.group_size >= spec.k || quant.group_size == kFp8GroupInputs) &&
         spec.n % kAlignment == 0 && spec.k % kAlignment == 0;
}

// Returns the number of groups of a row of activations, or of an output of the weight, padded to an
// even number.
inline int64_t fp8_groups(const WeightSpec& spec) {
  constexpr int64_t kPairInputs = 2 * kFp8GroupInputs;
  return has_fp8_groups(spec) ? (spec.k + kPairInputs - 1) / kPairInputs * 2 : 1;
}

struct Fp8WeightLayout {
  int64_t scales_at = 0;     // bytes
  int64_t scale_stride = 0;  // between groups
  int64_t num_bytes = 0;
};
inline Fp8WeightLayout fp8_weight_layout(const WeightSpec& spec) {
  const int64_t scales_at = (spec.n * spec.k + 255) / 256 * 256;
  const int64_t stride = has_fp8_groups(spec) ? (spec.n + 7) / 8 * 8 : spec.n;
  return {scales_at, stride, scales_at + fp8_groups(spec) * stride * int64_t{sizeof(float)}};
}

// Rows as such a product reads them: codes [M, K]; scales [M], or for groups [groups][M padded to
// 8].
struct Fp8Rows {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  int64_t scale_stride = 0;  // between groups
};
constexpr int64_t fp8_scale_stride(int64_t num_rows) { return (num_rows + 7) / 8 * 8; }
constexpr int64_t fp8_rows_bytes(int64_t num_rows, int64_t k, int64_t groups = 1) {
  const int64_t scales = groups * fp8_scale_stride(num_rows) * int64_t{sizeof(float)};
  return (num_rows * k + 255) / 256 * 256 + (scales + 255) / 256 * 256;
}
inline Fp8Rows fp8_rows(void* memory, int64_t num_rows, int64_t k) {
  auto* codes = static_cast<uint8_t*>(memory);
  return {codes, reinterpret_cast<float*>(codes + (num_rows * k + 255) / 256 * 256),
          fp8_scale_stride(num_rows)};
}

// Divides each row of x [M, K] of bf16, rows x_stride apart, by its scale max|x| / 448 and rounds
// it to nearest even. A row of zeros has the scale 1; a row with NaN or infinity becomes NaN. A
// row's codes depend on that row alone (law L4).
void quantize_rows(Stream& stream, ConstActivations x, int64_t x_stride, int64_t num_rows,
                   int64_t k, const Fp8Rows& out);

// Does the same to each group of 128 inputs of a row, for `groups` groups; groups past the inputs
// have the scale 1.
void quantize_groups(Stream& stream, ConstActivations x, int64_t x_stride, int64_t num_rows,
                     int64_t k, int64_t groups, const Fp8Rows& out);

}  // namespace quire::cuda
