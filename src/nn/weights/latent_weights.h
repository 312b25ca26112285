// These are the weights of a layer's latent attention (nn/decoder_spec.h: LatentSpec).
#pragma once

#include <vector>

#include "nn/weights/linear_weights.h"

namespace quire {

struct LatentWeights {
  LinearWeights down;                 // [down_rows, E]
  const float* query_norm = nullptr;  // [query_rank] or null
  LinearWeights query_up;             // [Hq * (N + P), query_rank] or empty
  const float* norm = nullptr;        // [R]
  // Per head: what absorbs queries [R, N], and what makes values of sums of latents [V, R].
  std::vector<LinearWeights> key_up;
  std::vector<LinearWeights> value_up;
};

}  // namespace quire
