#include "nn/products/gated_rows.h"

#include <cmath>

namespace quire {

void add_gated_rows(const GatedRows& gated, float* add_to) {
  const float share = std::tanh(gated.gate);
  for (int64_t row = 0; row < gated.num_rows; ++row) {
    if (gated.wanted != nullptr && gated.wanted[row] == 0) continue;
    const float* const from = gated.rows + row * gated.width;
    float* const to = add_to + row * gated.width;
    for (int64_t i = 0; i < gated.width; ++i) to[i] += share * from[i];
  }
}

}  // namespace quire
