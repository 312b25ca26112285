#pragma once

#include <cstdint>

#include "kernels/api/state.h"
#include "tensor/activations.h"

namespace quire {

inline constexpr int32_t kMaxConvKernel = 16;

// causal_conv() convolves each channel of a sequence over its tokens:
//   y[t, c] = act(bias[c] + sum_{j < K} weight[c, j] * v[t - K + 1 + j, c]),  v = x * in_gate,
//   out[t, c] = y[t, c] * out_gate[t, c].
// A gate that is null counts as 1 (LFM2's short convolution has both gates). The state is the last
// K - 1 rows of v, [K - 1, C], the oldest first.
struct CausalConvParams {
  ConstActivations x = nullptr;         // [T, C]
  ConstActivations in_gate = nullptr;   // [T, C] or null
  ConstActivations out_gate = nullptr;  // [T, C] or null
  int64_t x_stride = 0;                 // elements from row to row of these three
  const float* weight = nullptr;        // [C, K]; the last tap is of the current token
  const float* bias = nullptr;          // [C] or null
  bool silu = false;                    // act is SiLU; otherwise the identity
  Activations out = nullptr;            // [T, C], may be x with its stride
  int64_t out_stride = 0;
  StateSegments segments;
  StateView state;
  int32_t kernel_size = 0;   // K in [1, kMaxConvKernel]
  int64_t num_channels = 0;  // C
};
void causal_conv(Stream& stream, const CausalConvParams& params);

inline constexpr int64_t causal_conv_state_floats(int32_t kernel_size, int64_t num_channels) {
  return (kernel_size - 1) * num_channels;
}

}  // namespace quire
