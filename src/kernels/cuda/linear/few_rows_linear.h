// few_rows_linear() is y = x W^T of bf16 weights and a few rows, as in decoding, where the time is
// that of reading W once. linear() uses it where it measures faster than the library's products.
#pragma once

#include <cstdint>

#include "kernels/api/linear.h"

namespace quire::cuda {

inline constexpr int64_t kMostFewRows = 16;

// Returns whether few_rows_linear() supports the product: at most kMostFewRows rows of bf16, a
// dense bf16 weight, K a multiple of 32, and rows of x at multiples of 16 bytes.
bool fits_few_rows(const LinearParams& params);

// Does what linear() does, without a workspace. A row's bits depend on that row and the weight
// alone, but differ from the library's. It begins to read the weight while the previous kernel
// still runs, so no kernel that may still run must write the weight.
void few_rows_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
