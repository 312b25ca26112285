// The weights of DraftInputSpec.
#pragma once

#include "nn/weights/linear_weights.h"

namespace quire {

struct DraftInputWeights {
  LinearWeights fc;                       // [E, hidden_size], or [E, E + hidden_size]
  const float* embedding_norm = nullptr;  // [E] or null
  const float* hidden_norm = nullptr;     // [E] with is_beside, else [hidden_size]; or null
};

}  // namespace quire
