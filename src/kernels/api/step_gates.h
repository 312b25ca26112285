#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

// step_gates() computes the step size (delta) of each token and the factor (decay) by which the
// state decays at that token:
//   delta[t, i] = clamp(softplus(x[t, i] + bias[i]), min, max)
//   decay[t, i] = exp(a[i / repeat] * delta[t, i])
struct StepGatesParams {
  ConstActivations x = nullptr;  // [T, N]
  int64_t x_stride = 0;          // elements from row to row
  const float* bias = nullptr;   // [N] or null
  const float* a = nullptr;      // [N / repeat], < 0; null without `decay`
  int64_t repeat = 1;
  float min_delta = 0.0f;
  float max_delta = 3.4e38f;
  float* delta = nullptr;  // [T, N] or null
  float* decay = nullptr;  // [T, N] or null
  int64_t num_tokens = 0;  // T
  int64_t size = 0;        // N
};
void step_gates(Stream& stream, const StepGatesParams& params);

// out[t, i] = sigmoid(x[t, i]).
struct SigmoidParams {
  ConstActivations x = nullptr;  // [T, N]
  int64_t x_stride = 0;          // elements from row to row
  float* out = nullptr;          // [T, N]
  int64_t num_tokens = 0;        // T
  int64_t size = 0;              // N
};
void sigmoid(Stream& stream, const SigmoidParams& params);

}  // namespace quire
