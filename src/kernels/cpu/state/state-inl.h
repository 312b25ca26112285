// The code that the kernels of states share, and the kernels that take one row or group at a time.
#pragma once

#include "kernels/cpu/element/math-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/state/state_kernels.h"

namespace quire {
namespace {

using cpu::ConvColumns;
using cpu::DeltaColumns;
using cpu::GateRow;
using cpu::NormGroup;
using cpu::ScanColumns;
using cpu::SegmentArgs;
using cpu::SsdColumns;

// Loads a vector of which only n lanes are read; the others are 0.
QUIRE_SIMD F16 load_lanes(const float* p, int64_t n) { return n >= 16 ? load(p) : load_n(p, n); }
QUIRE_SIMD void store_lanes(float* p, F16 v, int64_t n) {
  if (n >= 16) {
    store(p, v);
  } else {
    store_n(p, v, n);
  }
}

// Rows are prefetched this far ahead. They are far apart and a task reads little of each, which the
// hardware cannot predict.
constexpr int64_t kRowsAhead = 16;
QUIRE_SIMD void prefetch_row(const float* rows, int64_t stride, int64_t row, int64_t end,
                             int64_t count) {
  const int64_t ahead = row + kRowsAhead < end ? row + kRowsAhead : end - 1;
  for (int64_t i = 0; i < count; i += 16) prefetch(rows + ahead * stride + i);
}

// The place of a segment's state before it (null: zeros) and after it (null: the state is not
// kept).
struct SegmentState {
  const float* in;
  float* out;
};
QUIRE_SIMD SegmentState state_of(const SegmentArgs& args, int32_t segment) {
  const int64_t in = args.state_in[segment];
  const int64_t out = args.state_out[segment];
  return {in == 0 ? nullptr : args.state + in * args.block_stride,
          out == 0 ? nullptr : args.state + out * args.block_stride};
}

// Returns log(1 + e^x) = max(x, 0) + log(1 + y) with y = e^-|x| in (0, 1]. log(1 + y) = 2 atanh z
// with z = y / (2 + y) <= 1 / 3 is its series to z^17 (remainder < 2e-10).
QUIRE_SIMD F16 softplus(F16 x) {
  const F16 y = exp(sub(zero(), abs(x)));
  const F16 z = div(y, add(set1(2.0f), y));
  const F16 square = mul(z, z);
  F16 p = set1(2.0f / 17.0f);
  for (int k = 15; k >= 1; k -= 2) p = fma(p, square, set1(2.0f / static_cast<float>(k)));
  return fma(p, z, max(zero(), x));
}

QUIRE_SIMD F16 sigmoid(F16 x) { return div(set1(1.0f), add(set1(1.0f), exp(sub(zero(), x)))); }

static void step_gates_row(const GateRow& args) {
  for (int64_t i = 0; i < args.n; i += 16) {
    const int64_t left = args.n - i;
    F16 x = load_lanes(args.x + i, left);
    if (args.bias != nullptr) x = add(x, load_lanes(args.bias + i, left));
    const F16 delta = min(max(softplus(x), set1(args.min_delta)), set1(args.max_delta));
    if (args.delta != nullptr) store_lanes(args.delta + i, delta, left);
    if (args.decay == nullptr) continue;
    const F16 a = args.one_a ? set1(args.a[0]) : load_lanes(args.a + i, left);
    store_lanes(args.decay + i, exp(mul(a, delta)), left);
  }
}

static void sigmoid_row(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    store_lanes(out + i, sigmoid(load_lanes(x + i, n - i)), n - i);
  }
}

QUIRE_SIMD F16 gated(F16 x, const NormGroup& args, int64_t i) {
  if (args.act == cpu::kGateNone) return x;
  const F16 gate = load_lanes(args.gate + i, args.n - i);
  return mul(x, args.act == cpu::kGateSilu ? silu(gate) : sigmoid(gate));
}

static void gated_norm_group(const NormGroup& args) {
  F16 sum = zero();
  if (args.normalizes) {
    for (int64_t i = 0; i < args.n; i += 16) {
      F16 x = load_lanes(args.x + i, args.n - i);
      if (args.gate_first) x = gated(x, args, i);
      sum = fma(x, x, sum);
    }
  }
  const float mean = reduce_add(sum) / static_cast<float>(args.n);
  const F16 scale =
      set1(args.normalizes ? args.scale / __builtin_sqrtf(mean + args.eps) : args.scale);
  for (int64_t i = 0; i < args.n; i += 16) {
    const int64_t left = args.n - i;
    F16 x = load_lanes(args.x + i, left);
    if (args.gate_first) x = gated(x, args, i);
    x = mul(x, scale);
    if (args.weight != nullptr) x = mul(x, load_lanes(args.weight + i, left));
    if (!args.gate_first) x = gated(x, args, i);
    store_lanes(args.x + i, x, left);
  }
}

}  // namespace
}  // namespace quire
