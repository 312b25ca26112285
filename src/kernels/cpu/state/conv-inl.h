// The causal convolution of 16 channels. K rows of inputs stay in registers; K = 0 is for any other
// size.
#pragma once

#include "kernels/cpu/element/math-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/state/state-inl.h"
#include "kernels/cpu/state/state_kernels.h"

namespace quire {
namespace {

constexpr int kMaxTaps = 16;

struct ConvTaps {
  F16 weight[kMaxTaps];
  F16 bias;
};

QUIRE_SIMD ConvTaps load_taps(const ConvColumns& args, int taps) {
  ConvTaps loaded;
#pragma GCC unroll 16
  for (int j = 0; j < taps; ++j) {
    float column[16] = {};
    for (int64_t c = 0; c < args.count; ++c) column[c] = args.weight[c * args.kernel_size + j];
    loaded.weight[j] = load(column);
  }
  loaded.bias = args.bias == nullptr ? zero() : load_lanes(args.bias, args.count);
  return loaded;
}

template <int K>
static void conv_segment(const ConvColumns& args, const ConvTaps& loaded, int32_t segment) {
  const int taps = K > 0 ? K : args.kernel_size;
  const SegmentState state = state_of(args.segments, segment);
  F16 window[K > 0 ? K : kMaxTaps];  // the last inputs and then the current one
#pragma GCC unroll 16
  for (int j = 0; j + 1 < taps; ++j) {
    window[j] =
        state.in == nullptr ? zero() : load_lanes(state.in + j * args.num_channels, args.count);
  }
  const int64_t end = args.segments.start_loc[segment + 1];
  for (int64_t t = args.segments.start_loc[segment]; t < end; ++t) {
    const int64_t at = t * args.x_stride;
    prefetch_row(args.x, args.x_stride, t, end, args.count);
    prefetch_row(args.out, args.out_stride, t, end, args.count);
    F16 x = load_lanes(args.x + at, args.count);
    if (args.in_gate != nullptr) x = mul(x, load_lanes(args.in_gate + at, args.count));
    window[taps - 1] = x;
    F16 y = loaded.bias;
#pragma GCC unroll 16
    for (int j = 0; j < taps; ++j) y = fma(loaded.weight[j], window[j], y);
#pragma GCC unroll 16
    for (int j = 0; j + 1 < taps; ++j) window[j] = window[j + 1];
    if (args.silu) y = silu(y);
    if (args.out_gate != nullptr) y = mul(y, load_lanes(args.out_gate + at, args.count));
    store_lanes(args.out + t * args.out_stride, y, args.count);
  }
  if (state.out == nullptr) return;
#pragma GCC unroll 16
  for (int j = 0; j + 1 < taps; ++j) {
    store_lanes(state.out + j * args.num_channels, window[j], args.count);
  }
}

template <int K>
static void conv_segments(const ConvColumns& args) {
  const ConvTaps loaded = load_taps(args, K > 0 ? K : args.kernel_size);
  for (int32_t s = 0; s < args.segments.num_segments; ++s) conv_segment<K>(args, loaded, s);
}

static void conv_columns(const ConvColumns& args) {
  switch (args.kernel_size) {
    case 2:
      return conv_segments<2>(args);
    case 3:
      return conv_segments<3>(args);
    case 4:
      return conv_segments<4>(args);
    default:
      return conv_segments<0>(args);
  }
}

}  // namespace
}  // namespace quire
