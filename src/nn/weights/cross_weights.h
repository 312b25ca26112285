// The weights of a layer's cross-attention (nn/spec/cross_spec.h).
#pragma once

#include "nn/weights/linear_weights.h"
#include "nn/weights/norm_weights.h"

namespace quire {

struct CrossWeights {
  NormWeights norm;  // of the input, or of the sum
  LinearWeights q;   // [Hq * D, E]
  LinearWeights kv;  // [2 * Hkv * D, size of a source's row]
  LinearWeights o;   // [E, Hq * D]
  // The norms are [D] each, for CrossSpec::qk_norm, and the gates [1] each, for CrossSpec::gated;
  // otherwise they are null.
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* gate = nullptr;
  const float* mlp_gate = nullptr;
};

}  // namespace quire
