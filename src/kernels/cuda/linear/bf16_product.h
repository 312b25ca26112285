// The arguments of kernels that multiply bf16 rows by a dense bf16 weight, both in their stored
// layout.
#pragma once

#include "kernels/api/linear.h"
#include "kernels/cuda/device_code.h"

namespace quire::cuda {

struct Bf16Product {
  const bfloat16* x = nullptr;  // [M, K], rows x_stride apart
  int64_t x_stride = 0;
  const bfloat16* weight = nullptr;  // [N, K]
  int64_t n = 0;
  int64_t k = 0;
  int64_t num_rows = 0;
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t y_stride = 0;
  bool y_is_float = false;
  bool accumulate = false;
};

inline Bf16Product bf16_product(const LinearParams& p) {
  return {.x = static_cast<const bfloat16*>(p.x.data()),
          .x_stride = p.x_stride,
          .weight = static_cast<const bfloat16*>(p.weight->data),
          .n = p.weight->spec.n,
          .k = p.weight->spec.k,
          .num_rows = p.num_rows,
          .bias = p.bias,
          .y = p.y.data(),
          .y_stride = p.y_stride,
          .y_is_float = p.y.dtype() == DType::kF32,
          .accumulate = p.accumulate};
}

}  // namespace quire::cuda
