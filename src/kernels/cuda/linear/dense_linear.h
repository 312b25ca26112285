// dense_linear() is y = x W^T of bf16 weights by warpgroup products, for Hopper alone. Its sums run
// over k in one order for any number of rows, so that a row's bits are the same alone and among
// thousands, and it is fast for one row as for thousands.
#pragma once

#include "device/gpu_stream.h"
#include "kernels/api/linear.h"

namespace quire::cuda {

// Returns whether dense_linear() computes the product on this GPU: compute capability 9.0, bf16
// inputs, a dense bf16 weight, K and the rows of x multiples of eight elements, x and the weight at
// multiples of 16 bytes.
bool fits_dense_linear(const GpuStream& stream, const LinearParams& params);

// Whether it gates products by such a weight (LinearParams::gate): then y is what activation() would
// make of the product, to the bit. Of activations it knows those of is_fused_activation().
bool gates_dense_linear(const GpuStream& stream, const WeightSpec& spec);

// Does what linear() does, without workspace, and adds the bias before y is rounded. A row's bits
// depend on that row and the weight alone. It begins to read the weight before the kernel before it
// has ended, so what the weight holds must have been there for longer.
void dense_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
