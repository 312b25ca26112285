// The output arguments that products of dense and of quantized weights share.
#pragma once

#include <cstdint>

namespace quire::cpu {

struct GatedPanels;

// The destination of a product's outputs, and the operations on them.
struct ProductOutput {
  float* y = nullptr;  // the first row, at the first multiplied column
  int64_t y_stride = 0;
  const float* bias = nullptr;  // [N] of the weight, or null
  bool accumulate = false;
  // As in LinearPanelsArgs. Not null only if the product gates_itself().
  const GatedPanels* gate = nullptr;
  bool past_caches = false;
};

}  // namespace quire::cpu
