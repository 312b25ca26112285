// dense_linear() is y = x W^T of bf16 weights by warpgroup products, for Hopper only. Its sums run
// over k in one order for any number of rows, so a row has the same bits alone and among thousands.
// It is fast for one row and for thousands.
#pragma once

#include "device/gpu_stream.h"
#include "kernels/api/linear.h"

namespace quire::cuda {

// Returns whether dense_linear() computes the product on this GPU: compute capability 9.0, bf16
// inputs, a dense bf16 weight, K and the rows of x multiples of eight elements, x and the weight at
// multiples of 16 bytes.
bool fits_dense_linear(const GpuStream& stream, const LinearParams& params);

// Returns whether it supports a gate for products by such a weight (LinearParams::gate). y is then
// bit for bit what activation() would make of the product. Only activations of
// is_fused_activation() are supported.
bool gates_dense_linear(const GpuStream& stream, const WeightSpec& spec);

// Does what linear() does, without a workspace, and adds the bias before y is rounded. A row's bits
// depend on that row and the weight alone. It begins to read the weight while the previous kernel
// still runs, so no kernel that may still run must write the weight.
void dense_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
