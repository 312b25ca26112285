// causal_conv(): each thread has a channel and walks the tokens of a chain, with the last inputs in
// its registers.
#include <cmath>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/states/chains.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTokensAhead = 16;  // whose inputs are being loaded

struct ConvArgs {
  const float* x;
  const float* in_gate;
  const float* out_gate;
  int64_t x_stride;
  const float* weight;
  const float* bias;
  bool silu;
  float* out;
  int64_t out_stride;
  StateSegments segments;
  StateView state;
  int32_t kernel_size;
  int64_t num_channels;
  int32_t num_tiles;  // of channels
};

// A token's inputs for a channel. Nothing is computed from them before they are needed, so that no
// thread waits for their loads.
struct ConvToken {
  float x = 0.0f;
  float in_gate = 1.0f;
  float out_gate = 1.0f;
};

// The first kTaps - kernel_size taps are zero.
template <int kTaps>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) conv_kernel(const ConvArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t channel =
      int64_t{ptx::block_index()} % args.num_tiles * kThreads + ptx::thread_index();
  if (channel >= args.num_channels) return;
  const int32_t unused = kTaps - args.kernel_size;
  float tap[kTaps];
  float last[kTaps - 1];  // inputs, the oldest first
#pragma unroll
  for (int j = 0; j < kTaps; ++j)
    tap[j] = j < unused ? 0.0f : args.weight[channel * args.kernel_size + j - unused];
  const float bias = args.bias == nullptr ? 0.0f : args.bias[channel];
  const auto state_index = [&](int j) { return (j - unused) * args.num_channels + channel; };
  const auto load = [&](const float* state) {
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j)
      last[j] = j < unused || state == nullptr ? 0.0f : state[state_index(j)];
  };
  const auto fetch = [&](int64_t t) {
    const int64_t at = t * args.x_stride + channel;
    return ConvToken{args.x[at], args.in_gate == nullptr ? 1.0f : args.in_gate[at],
                     args.out_gate == nullptr ? 1.0f : args.out_gate[at]};
  };
  const auto step = [&](int64_t t, const ConvToken& token) {
    const float value = ptx::multiply(token.x, token.in_gate);
    float y = bias;
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) {
      y = ptx::multiply_add(tap[j], last[j], y);
      last[j] = j + 1 < kTaps - 1 ? last[j + 1] : value;
    }
    y = ptx::multiply_add(tap[kTaps - 1], value, y);
    if (args.silu) y = ptx::divide(y, ptx::add(1.0f, expf(-y)));
    args.out[t * args.out_stride + channel] = ptx::multiply(y, token.out_gate);
  };
  const auto run = [&](int32_t begin, int32_t end) {
    run_tokens<kTokensAhead>(begin, end, fetch, step);
  };
  const auto save = [&](float* state) {
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) {
      if (j >= unused) state[state_index(j)] = last[j];
    }
  };
  run_chain(args.segments, args.state, ptx::block_index() / args.num_tiles, load, run, save);
}

}  // namespace

void causal_conv(Stream& stream, const CausalConvParams& p) {
  if (p.segments.num_segments == 0) return;
  QUIRE_CHECK(p.kernel_size >= 1 && p.kernel_size <= kMaxConvKernel, "[causal_conv] {} taps",
              p.kernel_size);
  const auto num_tiles = static_cast<int32_t>((p.num_channels + kThreads - 1) / kThreads);
  const ConvArgs args{.x = p.x,
                      .in_gate = p.in_gate,
                      .out_gate = p.out_gate,
                      .x_stride = p.x_stride,
                      .weight = p.weight,
                      .bias = p.bias,
                      .silu = p.silu,
                      .out = p.out,
                      .out_stride = p.out_stride,
                      .segments = p.segments,
                      .state = p.state,
                      .kernel_size = p.kernel_size,
                      .num_channels = p.num_channels,
                      .num_tiles = num_tiles};
  const LaunchShape shape{.num_blocks = int64_t{p.segments.num_segments} * num_tiles,
                          .num_threads = kThreads};
  if (p.kernel_size <= 4) return launch<conv_kernel<4>>(stream, shape, args);
  launch<conv_kernel<kMaxConvKernel>>(stream, shape, args);
}

}  // namespace quire::cuda
