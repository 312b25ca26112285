// These are the weights of a layer's attention to a source (nn/spec/cross_spec.h).
#pragma once

#include "nn/weights/linear_weights.h"
#include "nn/weights/norm_weights.h"

namespace quire {

struct CrossWeights {
  NormWeights norm;  // of what it reads, or of the sum
  LinearWeights q;   // [Hq * D, E]
  LinearWeights kv;  // [2 * Hkv * D, size of a source's row]
  LinearWeights o;   // [E, Hq * D]
  // The norms are [D] each with CrossSpec::qk_norm and the gates [1] each with CrossSpec::gated;
  // else they are null.
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* gate = nullptr;
  const float* mlp_gate = nullptr;
};

}  // namespace quire
