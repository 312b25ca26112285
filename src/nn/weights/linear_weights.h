// A linear map's weights in the layout of the kernels.
#pragma once

#include "weights/checkpoint.h"

namespace quire {

struct LinearWeights {
  MatrixWeight weight;
  const float* bias = nullptr;  // [N] or null

  bool is_empty() const { return weight.parts.empty(); }
};

}  // namespace quire
