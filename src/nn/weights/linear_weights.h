// The weights of a linear map in the layout of the kernels.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "weights/checkpoint.h"

namespace quire {

struct LinearWeights {
  MatrixWeight weight;
  const float* bias = nullptr;  // [N] or null
  // [parts, 4]: for each part of the weight, the least and greatest input and the least and
  // greatest output; null: nothing is clipped.
  const float* bounds = nullptr;

  bool is_empty() const { return weight.parts.empty(); }
};

// Returns the workspace for products of up to `max_rows` rows with any part of the matrix; 0 for an
// empty one.
int64_t linear_workspace_bytes(const Stream& stream, int64_t max_rows,
                               const LinearWeights& weights);

}  // namespace quire
