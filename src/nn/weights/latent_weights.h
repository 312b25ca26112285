// The weights of a layer's latent attention (nn/decoder_spec.h: LatentSpec).
#pragma once

#include <vector>

#include "nn/weights/linear_weights.h"

namespace quire {

struct LatentWeights {
  LinearWeights down;                 // [down_rows, E]
  const float* query_norm = nullptr;  // [query_rank] or null
  LinearWeights query_up;             // [Hq * (N + P), query_rank] or empty
  const float* norm = nullptr;        // [R]
  // By head: the matrices that absorb queries [R, N], and those that expand sums of latents to
  // values [V, R].
  std::vector<LinearWeights> key_up;
  std::vector<LinearWeights> value_up;
};

}  // namespace quire
