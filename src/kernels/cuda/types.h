// Dispatch from an element type at run time to one at compile time: the callable gets a value of
// the type.
#pragma once

#include "base/check.h"
#include "base/dtype.h"

namespace quire::cuda {

// For activations: float32 or bf16.
template <typename F>
void with_float_type(DType dtype, F&& f) {
  if (dtype == DType::kF32) return f(float{});
  QUIRE_CHECK(dtype == DType::kBF16, "expected float32 or bfloat16, got {}", to_string(dtype));
  f(bfloat16{});
}

// For tables and weights: float32, bf16 or f16.
template <typename F>
void with_table_type(DType dtype, F&& f) {
  if (dtype == DType::kF16) return f(float16{});
  with_float_type(dtype, f);
}

}  // namespace quire::cuda
