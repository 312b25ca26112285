#pragma once

#include <cstdint>

#include "device/stream.h"

namespace quire {

// RMSNorm (Zhang and Sennrich, 2019): out = x / sqrt(mean(x^2) + eps) * weight.
// With `add_to`: add_to += that instead (post-norm residual, Gemma).
struct RmsNormParams {
  const float* x = nullptr;       // [T, E]
  const float* weight = nullptr;  // [E]; offsets such as Gemma's 1 + w are folded in at load
  float* out = nullptr;           // [T, E], may be x; unused with add_to
  float* add_to = nullptr;        // [T, E] or null
  float eps = 1e-6f;
  int64_t num_tokens = 0;
  int64_t hidden_size = 0;
};
void rms_norm(Stream& stream, const RmsNormParams& params);

// LayerNorm: out = (x - mean) / sqrt(var + eps) * weight + bias.
struct LayerNormParams {
  const float* x = nullptr;       // [T, E]
  const float* weight = nullptr;  // [E]
  const float* bias = nullptr;    // [E] or null
  float* out = nullptr;           // [T, E]
  float eps = 1e-5f;
  int64_t num_tokens = 0;
  int64_t hidden_size = 0;
};
void layer_norm(Stream& stream, const LayerNormParams& params);

}  // namespace quire
