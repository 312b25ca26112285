// Mamba's scan of 16 channels, and Mamba-2's scan of up to 32 columns of a head. The elements of a
// state are updated token by token, and the sum of a token over the states is in their order.
#pragma once

#include "kernels/cpu/element/math-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/state/state-inl.h"
#include "kernels/cpu/state/state_kernels.h"

namespace quire {
namespace {

constexpr int64_t kMaxStates = 256;

// Transposes a, whose rows are channels, to [N] vectors.
QUIRE_SIMD void load_transposed(const float* a, int64_t num_states, int64_t count, float* out) {
  for (int64_t n = 0; n < num_states; ++n) {
    for (int64_t c = 0; c < 16; ++c) out[n * 16 + c] = c < count ? a[c * num_states + n] : 0.0f;
  }
}

static void scan_segment(const ScanColumns& args, const float* a, int32_t segment) {
  float h[kMaxStates * 16];
  const SegmentState state = state_of(args.segments, segment);
  for (int64_t n = 0; n < args.num_states; ++n) {
    store(h + n * 16,
          state.in == nullptr ? zero() : load_lanes(state.in + n * args.num_channels, args.count));
  }
  const F16 d = load_lanes(args.d, args.count);
  const int64_t end = args.segments.start_loc[segment + 1];
  for (int64_t t = args.segments.start_loc[segment]; t < end; ++t) {
    prefetch_row(args.x, args.x_stride, t, end, args.count);
    prefetch_row(args.delta, args.num_channels, t, end, args.count);
    prefetch_row(args.out, args.num_channels, t, end, args.count);
    const F16 x = load_lanes(args.x + t * args.x_stride, args.count);
    const F16 delta = load_lanes(args.delta + t * args.num_channels, args.count);
    const F16 input = mul(delta, x);
    const float* b = args.b + t * args.bc_stride;
    const float* c = args.c + t * args.bc_stride;
    F16 y = mul(d, x);
    for (int64_t n = 0; n < args.num_states; ++n) {
      const F16 decay = exp(mul(delta, load(a + n * 16)));
      const F16 next = fma(input, set1(b[n]), mul(decay, load(h + n * 16)));
      store(h + n * 16, next);
      y = fma(next, set1(c[n]), y);
    }
    store_lanes(args.out + t * args.num_channels, y, args.count);
  }
  if (state.out == nullptr) return;
  for (int64_t n = 0; n < args.num_states; ++n) {
    store_lanes(state.out + n * args.num_channels, load(h + n * 16), args.count);
  }
}

static void scan_columns(const ScanColumns& args) {
  float a[kMaxStates * 16];
  load_transposed(args.a, args.num_states, args.count, a);
  for (int32_t s = 0; s < args.segments.num_segments; ++s) scan_segment(args, a, s);
}

// Computes M tokens from t on, with G vectors of columns, from the state `in` (null: zeros) to
// `out` (null: it is not kept).
template <int G, int M>
static void ssd_tokens(const SsdColumns& args, int64_t t, const float* in, float* out) {
  F16 input[M][G], y[M][G], decay[M];
  const float* b[M];
  const float* c[M];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    const float* row = args.x + (t + m) * args.x_stride;
    const int64_t gates = (t + m) * args.num_heads;
    decay[m] = set1(args.decay[gates]);
    b[m] = args.b + (t + m) * args.x_stride;
    c[m] = args.c + (t + m) * args.x_stride;
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g) {
      const F16 x = load_lanes(row + 16 * g, args.count - 16 * g);
      input[m][g] = mul(set1(args.delta[gates]), x);
      y[m][g] = mul(set1(args.d), x);
    }
  }
  for (int64_t n = 0; n < args.num_states; ++n) {
    F16 s[G];
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g) s[g] = in == nullptr ? zero() : load(in + (n * G + g) * 16);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 16
      for (int g = 0; g < G; ++g) {
        s[g] = fma(input[m][g], set1(b[m][n]), mul(decay[m], s[g]));
        y[m][g] = fma(s[g], set1(c[m][n]), y[m][g]);
      }
    }
#pragma GCC unroll 16
    for (int g = 0; g < G && out != nullptr; ++g) store(out + (n * G + g) * 16, s[g]);
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g) {
      store_lanes(args.out + (t + m) * args.out_stride + 16 * g, y[m][g], args.count - 16 * g);
    }
  }
}

template <int G>
static void ssd_segments(const SsdColumns& args) {
  constexpr int kTokens = 4;
  for (int32_t s = 0; s < args.segments.num_segments; ++s) {
    float unkept[G * kMaxStates * 16];
    const SegmentState state = state_of(args.segments, s);
    float* const out = state.out == nullptr ? unkept : state.out;
    const float* in = state.in;
    const int64_t end = args.segments.start_loc[s + 1];
    int64_t t = args.segments.start_loc[s];
    for (; t + kTokens <= end; t += kTokens, in = out) {
      for (int64_t next = t; next < t + kTokens; ++next) {
        prefetch_row(args.x, args.x_stride, next, end, args.count);
        prefetch_row(args.out, args.out_stride, next, end, args.count);
      }
      ssd_tokens<G, kTokens>(args, t, in, out);
    }
    for (; t < end; ++t, in = out) ssd_tokens<G, 1>(args, t, in, out);
  }
}

static void ssd_columns(const SsdColumns& args) {
  return args.count > 16 ? ssd_segments<2>(args) : ssd_segments<1>(args);
}

}  // namespace
}  // namespace quire
