// These are products of FP8 with FP8: e4m3 weights with a scale per output times activations that
// are rounded to e4m3 with a scale per row, by cuBLASLt on Hopper. They take weights of a
// WeightSpec whose quant is e4m3 and whose dtype is kF8E4M3:
//   codes   [N, K]
//   scales  [N] float
#pragma once

#include <cstdint>

#include "kernels/api/linear.h"
#include "tensor/activations.h"

namespace quire::cuda {

inline bool has_fp8_products(const WeightSpec& spec) {
  return spec.quant.is_quantized() && spec.dtype == DType::kF8E4M3;
}

// Returns whether a weight can be kept like this, by its format and shape. supports_fp8_products()
// (kernels/api/fp8_support.h) says what the GPU and its libraries can do.
// can do is supports_fp8_products() (kernels/api/fp8_support.h).
inline bool fits_fp8_products(const WeightSpec& spec) {
  constexpr int64_t kAlignment = 16;  // of cuBLASLt's FP8
  return spec.quant.is_quantized() && spec.quant.codebook == Codebook::kE4M3 &&
         !spec.quant.has_two_levels() && !spec.quant.has_column_order &&
         spec.quant.group_size >= spec.k && spec.n % kAlignment == 0 && spec.k % kAlignment == 0;
}

struct Fp8WeightLayout {
  int64_t scales_at = 0;  // bytes
  int64_t num_bytes = 0;
};
inline Fp8WeightLayout fp8_weight_layout(const WeightSpec& spec) {
  const int64_t scales_at = (spec.n * spec.k + 255) / 256 * 256;
  return {scales_at, scales_at + spec.n * int64_t{sizeof(float)}};
}

// Such a product reads rows in this form: codes [M, K], scales [M].
struct Fp8Rows {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
};
constexpr int64_t fp8_rows_bytes(int64_t num_rows, int64_t k) {
  return (num_rows * k + 255) / 256 * 256 + (num_rows * int64_t{sizeof(float)} + 255) / 256 * 256;
}
inline Fp8Rows fp8_rows(void* memory, int64_t num_rows, int64_t k) {
  auto* codes = static_cast<uint8_t*>(memory);
  return {codes, reinterpret_cast<float*>(codes + (num_rows * k + 255) / 256 * 256)};
}

// Divides each row of x [M, K] of bf16, rows x_stride apart, by its scale max|x| / 448 and rounds
// it to nearest even. A row of zeros has the scale 1, one with NaN or infinity becomes NaN. A row's
// codes depend on that row alone (law L4).
void quantize_rows(Stream& stream, ConstActivations x, int64_t x_stride, int64_t num_rows,
                   int64_t k, const Fp8Rows& out);

}  // namespace quire::cuda
