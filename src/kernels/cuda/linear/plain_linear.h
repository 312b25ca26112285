// plain_linear() is y = x W^T of bf16 operands that begin anywhere: heads whose width is no multiple
// of 8 begin between the 16 bytes that other kernels and the library read at once.
#pragma once

#include "kernels/api/linear.h"

namespace quire::cuda {

// Returns whether x, W and y begin at multiples of 16 bytes, as every other product wants.
bool are_operands_aligned(const LinearParams& params);

// Does what linear() does, without workspace, of x and a dense W of bf16. A row's bits depend on that
// row and the weight alone.
void plain_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
