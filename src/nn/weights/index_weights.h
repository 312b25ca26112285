// The weights of a layer's indexer (nn/spec/index_spec.h).
#pragma once

#include <array>

#include "nn/weights/linear_weights.h"

namespace quire {

struct IndexWeights {
  LinearWeights query;               // [H * D, LatentSpec::query_rank]
  LinearWeights key;                 // [D, E]
  const float* key_norm = nullptr;   // [D]
  const float* key_shift = nullptr;  // [D], the bias of that norm
  LinearWeights head_weights;        // [H, E]
};

inline std::array<const LinearWeights*, 3> index_matrices(const IndexWeights& weights) {
  return {&weights.query, &weights.key, &weights.head_weights};
}

}  // namespace quire
