#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

enum class Activation : uint8_t {
  kSilu,      // x * sigmoid(x)
  kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): gelu_new, gelu_pytorch_tanh
  kGeluErf,   // x * Phi(x): gelu
  kRelu,
  kRelu2,      // max(0, x)^2
  kQuickGelu,  // x * sigmoid(1.702 x)
  kTanh,
  kXielu,  // a x^2 + x / 2 above 0, b (e^x - 1 - x) + x / 2 below (Huang, 2024)
};

// activation() computes out[t, f] = act(x[t, f]) with x [T, F], or if `gated` out[t, f] = act(x[t,
// f]) * x[t, F + f] with x [T, 2F].
struct ActivationParams {
  ConstActivations x = nullptr;
  Activations out = nullptr;  // [T, F]; may be x when not gated
  Activation activation = Activation::kSilu;
  bool gated = true;
  int64_t num_tokens = 0;
  int64_t ffn_size = 0;  // F
  // [2], in memory that the device reads: p and n of kXielu, which cannot be gated, with
  // a = softplus(p) and b = 1 / 2 + softplus(n).
  const float* xielu = nullptr;
};
void activation(Stream& stream, const ActivationParams& params);

// x[i] = cap * tanh(x[i] / cap), in place (Gemma 2's final logits).
struct SoftCapParams {
  float* x = nullptr;
  float cap = 0.0f;
  int64_t count = 0;
};
void soft_cap(Stream& stream, const SoftCapParams& params);

// out[t, i] = x[t, i] * sigmoid(logits[t]).
struct SigmoidScaleParams {
  ConstActivations x = nullptr;   // [T, N]
  Activations out = nullptr;      // [T, N], may be x
  const float* logits = nullptr;  // [T]
  int64_t num_rows = 0;           // T
  int64_t row_size = 0;           // N
};
void sigmoid_scale(Stream& stream, const SigmoidScaleParams& params);

}  // namespace quire
