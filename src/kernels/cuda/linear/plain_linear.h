// plain_linear() is y = x W^T of bf16 operands with any alignment. Heads whose width is no multiple
// of 8 do not begin at the multiples of 16 bytes that all other kernels and the library read at
// once.
#pragma once

#include "kernels/api/linear.h"

namespace quire::cuda {

// Returns whether x, W and y begin at multiples of 16 bytes, as all other products require.
bool are_operands_aligned(const LinearParams& params);

// Does what linear() does, without a workspace, for x and a dense W of bf16. A row's bits depend on
// that row and the weight alone.
void plain_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
