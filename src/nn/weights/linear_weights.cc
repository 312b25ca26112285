#include "nn/weights/linear_weights.h"

#include <algorithm>

#include "kernels/api/linear.h"

namespace quire {

int64_t linear_workspace_bytes(const Stream& stream, int64_t max_rows,
                               const LinearWeights& weights) {
  int64_t bytes = 0;
  for (const PackedWeight& part : weights.weight.parts)
    bytes = std::max(bytes, linear_workspace_bytes(stream, max_rows, part.spec));
  return bytes;
}

}  // namespace quire
