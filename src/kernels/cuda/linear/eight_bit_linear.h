// Products of eight-bit codes by warpgroups, for Hopper alone: activations are rounded row by row,
// and sums run over k in one order for any number of rows, so that a row's bits are the same alone
// and among thousands. They take weights of fp8_weight_layout():
//   e4m3 in groups of 128 inputs  products of a group are added by tensor cores, which keep 14 bits
//                                 of a sum; a group's sum is scaled and added to the total in float32
//   int8 with a scale per output  sums are exact
#pragma once

#include "device/gpu_stream.h"
#include "kernels/api/linear.h"

namespace quire::cuda {

// Returns whether eight_bit_linear() computes products by the weight on this GPU: compute capability
// 9.0, has_fp8_groups() or has_int8_products().
bool fits_eight_bit_linear(const GpuStream& stream, const WeightSpec& spec);

// Whether it gates products by such a weight (LinearParams::gate), to the bits of activation().
bool gates_eight_bit_linear(const GpuStream& stream, const WeightSpec& spec);

// Does what linear() does, in a workspace of fp8_rows_bytes(). It begins to read the weight before
// the kernel before it has ended, so what the weight holds must have been there for longer.
void eight_bit_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
