// What products of dense and of quantized weights have in common.
#pragma once

#include <cstdint>

namespace quire::cpu {

// Where the outputs of a product go.
struct ProductOutput {
  float* y = nullptr;  // the first row, at the first of the columns that are multiplied
  int64_t y_stride = 0;
  const float* bias = nullptr;  // [N] of the weight, or null
  bool accumulate = false;
};

}  // namespace quire::cpu
