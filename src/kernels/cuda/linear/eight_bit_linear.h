// Products of eight-bit codes by warpgroups, for Hopper only: activations are rounded row by row,
// and sums run over k in one order for any number of rows, so a row has the same bits alone and
// among thousands. Weights are laid out as fp8_weight_layout() says:
//   e4m3 in groups of 128 inputs  products of a group are added by tensor cores, which keep 14 bits
//                                 of a sum; a group's sum is scaled and added to the total in float32
//   int8 with a scale per output  sums are exact
#pragma once

#include "device/gpu_stream.h"
#include "kernels/api/linear.h"

namespace quire::cuda {

// Returns whether eight_bit_linear() computes products by the weight on this GPU, which requires
// compute capability 9.0, and has_fp8_groups() or has_int8_products().
bool fits_eight_bit_linear(const GpuStream& stream, const WeightSpec& spec);

// Returns whether it supports a gate for products by such a weight (LinearParams::gate), with the
// bits of activation().
bool gates_eight_bit_linear(const GpuStream& stream, const WeightSpec& spec);

// Does what linear() does, in a workspace of fp8_rows_bytes(). It begins to read the weight while
// the previous kernel still runs, so no kernel that may still run must write the weight.
void eight_bit_linear(Stream& stream, const LinearParams& params);

}  // namespace quire::cuda
