#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

// RMSNorm (Zhang and Sennrich, 2019): out = x / sqrt(mean(x^2) + eps) * weight.
// With `add_to` the result is added to add_to, and `out` is not written (Gemma's post-norm
// residual).
struct RmsNormParams {
  ConstActivations x = nullptr;   // [T, E]
  const float* weight = nullptr;  // [E]; the loader adds offsets such as that of Gemma's 1 + w
  Activations out = nullptr;      // [T, E], may be x; unused with add_to
  Activations add_to = nullptr;   // [T, E] or null
  const int32_t* rows = nullptr;  // [T] or null: row t of the result is that of row rows[t] of x
  float eps = 1e-6f;
  int64_t num_tokens = 0;
  int64_t hidden_size = 0;
};
void rms_norm(Stream& stream, const RmsNormParams& params);

// LayerNorm: out = (x - mean) / sqrt(var + eps) * weight + bias.
struct LayerNormParams {
  ConstActivations x = nullptr;   // [T, E]
  const float* weight = nullptr;  // [E]
  const float* bias = nullptr;    // [E] or null
  Activations out = nullptr;      // [T, E]
  const int32_t* rows = nullptr;  // [T] or null: row t of the result is that of row rows[t] of x
  float eps = 1e-5f;
  int64_t num_tokens = 0;
  int64_t hidden_size = 0;
};
void layer_norm(Stream& stream, const LayerNormParams& params);

}  // namespace quire
