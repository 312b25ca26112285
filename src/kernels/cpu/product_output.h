// What products of dense and of quantized weights have in common.
#pragma once

#include <cstdint>

namespace quire::cpu {

struct GatedPanels;

// Where the outputs of a product go.
struct ProductOutput {
  float* y = nullptr;  // the first row, at the first of the columns that are multiplied
  int64_t y_stride = 0;
  const float* bias = nullptr;  // [N] of the weight, or null
  bool accumulate = false;
  // Only where the product gates_itself(), as in LinearPanelsArgs.
  const GatedPanels* gate = nullptr;
  bool past_caches = false;
};

}  // namespace quire::cpu
