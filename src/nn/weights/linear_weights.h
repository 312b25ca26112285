// These are a linear map's weights in the layout of the kernels.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "weights/checkpoint.h"

namespace quire {

struct LinearWeights {
  MatrixWeight weight;
  const float* bias = nullptr;  // [N] or null
  // For each part of the weight, four numbers [parts, 4] bound what it reads, from the least to the
  // greatest, and what it makes; null where nothing is bounded.
  const float* bounds = nullptr;

  bool is_empty() const { return weight.parts.empty(); }
};

// For products of up to `max_rows` rows by any part of the matrix; 0 where there is none.
int64_t linear_workspace_bytes(const Stream& stream, int64_t max_rows,
                               const LinearWeights& weights);

}  // namespace quire
