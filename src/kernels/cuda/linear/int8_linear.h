// Products of int8 with int8, for checkpoints made for such activations (SmoothQuant, W8A8):
// integer weights with a scale per output times activations that are rounded to int8 with a scale
// per row. Weights have a WeightSpec whose dtype is kI8, and are laid out as fp8_weight_layout()
// says. Sums of integers are exact, so a row's bits depend on that row alone (law L4).
#pragma once

#include <cstdint>

#include "kernels/api/linear.h"
#include "kernels/cuda/linear/fp8_linear.h"
#include "tensor/activations.h"

namespace quire::cuda {

inline bool has_int8_products(const WeightSpec& spec) {
  return spec.quant.is_quantized() && spec.dtype == DType::kI8;
}

// Returns whether a weight can be stored like this: 8-bit integers with a single scale per row.
inline bool fits_int8_products(const WeightSpec& spec) {
  constexpr int64_t kAlignment = 16;    // required by asynchronous copies
  constexpr int64_t kMostK = 1 << 16;   // for which sums cannot overflow
  constexpr int32_t kInt8Offset = 128;  // a code is the integer plus this
  const QuantSpec& quant = spec.quant;
  return quant.is_quantized() && quant.codebook == Codebook::kLinear && quant.bits == 8 &&
         quant.offset == kInt8Offset && quant.zero_kind == ZeroKind::kNone &&
         !quant.has_two_levels() && !quant.has_column_order && quant.group_size >= spec.k &&
         spec.k % kAlignment == 0 && spec.k <= kMostK;
}

// Does what linear() does, in a workspace of fp8_rows_bytes(), on any GPU. On Hopper
// eight_bit_linear() computes the same bits faster.
void int8_linear(Stream& stream, const LinearParams& params);

// Divides each row of x [M, K] of bf16, rows x_stride apart, by its scale max|x| / 127 and rounds it to
// nearest even. A row of zeros has the scale 1; one with NaN or infinity has the scale NaN.
void quantize_int8_rows(Stream& stream, ConstActivations x, int64_t x_stride, int64_t num_rows,
                        int64_t k, const Fp8Rows& out);

}  // namespace quire::cuda
