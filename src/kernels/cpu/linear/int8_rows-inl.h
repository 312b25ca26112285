// Quantizes activations to int8, each row from that row alone (law L4).
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

using cpu::PackXArgs;

// Codes are round(x * 127 / max|x|), ties to even, and the scale is max|x| / 127. A row of zeros
// has the scale 0. A row with an infinity or NaN has the scale NaN, so that its outputs are NaN.
struct RowScale {
  float scale;
  float inverse;
};
QUIRE_SIMD RowScale int8_row_scale(const float* x, int64_t k) {
  F16 largest = zero();
  F16 poison = zero();  // x * 0 is NaN where x is not finite
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) {
    const F16 v = load(x + i);
    largest = max(abs(v), largest);
    poison = add(poison, mul(v, zero()));
  }
  if (i < k) {
    const F16 v = load_n(x + i, k - i);
    largest = max(abs(v), largest);
    poison = add(poison, mul(v, zero()));
  }
  const float most = reduce_max(largest);
  // For smaller rows 127 / most would overflow. They are treated as zeros.
  if (most < 0x1p-120f) return {reduce_add(poison), 0.0f};
  return {most / 127.0f + reduce_add(poison), 127.0f / most};
}

// A row with the factor that turns it into codes. The constructor stores its scale.
struct RowCodes {
  const float* x;
  int64_t k;
  F16 inverse;
};
QUIRE_SIMD RowCodes row_codes(const PackXArgs& args, int64_t row) {
  const float* x = args.x + row * args.x_stride;
  const RowScale scale = int8_row_scale(x, args.k);
  args.scales[row] = scale.scale;
  return {x, args.k, set1(scale.inverse)};
}
// Stores the codes of [k, k + 16), and zeros after the row's end.
QUIRE_SIMD void store_codes(const RowCodes& row, int64_t k, int8_t* codes) {
  const int64_t left = row.k - k;
  const F16 v = left >= 16 ? load(row.x + k) : load_n(row.x + k, left > 0 ? left : 0);
  store_i8(codes, mul(v, row.inverse));
}

}  // namespace
}  // namespace quire
