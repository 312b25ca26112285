// All linear kernels store their finished sums with this code, which adds bias and residual and
// stops at N.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

using cpu::kPanelWidth;
using cpu::LinearPanelsArgs;
using cpu::PackXArgs;

struct Outputs {
  float* y;
  int64_t y_stride;
  int64_t num_columns;  // columns that exist from y on
  const float* bias;    // or null
  bool accumulate;
  const float* x_scales;  // from this row on, for int8; else null
  const float* w_scales;  // from this column on, for int8; else null
  const int32_t* w_sums;
};

// Returns the outputs of a panel from row `row` on.
QUIRE_SIMD Outputs outputs_of(const LinearPanelsArgs& args, int64_t row, int64_t panel) {
  const int64_t column = panel * kPanelWidth;
  return {.y = args.y + row * args.y_stride + column,
          .y_stride = args.y_stride,
          .num_columns = args.num_columns - column,
          .bias = args.bias == nullptr ? nullptr : args.bias + column,
          .accumulate = args.accumulate,
          .x_scales = args.x_scales == nullptr ? nullptr : args.x_scales + row,
          .w_scales = args.w_scales == nullptr ? nullptr : args.w_scales + column,
          .w_sums = args.w_sums == nullptr ? nullptr : args.w_sums + column};
}

QUIRE_SIMD Outputs columns_from(const Outputs& out, int64_t column) {
  Outputs rest = out;
  rest.y += column;
  if (rest.bias != nullptr) rest.bias += column;
  if (rest.w_scales != nullptr) rest.w_scales += column;
  if (rest.w_sums != nullptr) rest.w_sums += column;
  rest.num_columns -= column;
  return rest;
}

// Returns an exact sum of products of codes as a float (rounded once), times its two scales.
QUIRE_SIMD F16 scaled(const Outputs& out, int64_t row, int v, F16 sum) {
  return mul(sum, mul(set1(out.x_scales[row]), load(out.w_scales + 16 * v)));
}

// Stores the sums of columns [16 * v, 16 * v + 16) of one row.
QUIRE_SIMD void finish(const Outputs& out, int64_t row, int v, F16 sum) {
  const int64_t left = out.num_columns - 16 * v;
  if (left <= 0) return;
  float* y = out.y + row * out.y_stride + 16 * v;
  if (left >= 16) {
    if (out.bias != nullptr) sum = add(sum, load(out.bias + 16 * v));
    if (out.accumulate) sum = add(load(y), sum);
    store(y, sum);
  } else {
    if (out.bias != nullptr) sum = add(sum, load_n(out.bias + 16 * v, left));
    if (out.accumulate) sum = add(load_n(y, left), sum);
    store_n(y, sum, left);
  }
}

}  // namespace
}  // namespace quire
