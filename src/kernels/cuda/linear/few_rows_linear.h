// few_rows_linear() is y = x W^T of bf16 weights and a few rows, as decoding has; reading W once
// bounds it. linear() takes it where it measures faster than the library's products.
#pragma once

#include <cstdint>

#include "kernels/api/linear.h"

namespace quire::cuda {

inline constexpr int64_t kMostFewRows = 16;

// Returns whether few_rows_linear() computes the product: at most kMostFewRows rows of bf16, a
// dense bf16 weight, K a multiple of 32, rows of x at multiples of 16 bytes.
bool fits_few_rows(const LinearParams& params);

// Does what linear() does, without workspace. A row's bits depend on that row and the weight alone,
// but they are not those of the library. It begins to read the weight before the kernel before it
// has ended, so what the weight holds must have been there for longer.
void few_rows_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
