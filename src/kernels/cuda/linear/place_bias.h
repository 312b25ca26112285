// place_bias() puts the bias of a linear layer into y, where the product cannot take it along: the
// product is then added to y, and its sum is rounded once. A bf16 y rounds the bias itself too,
// which does nothing to a bias that a checkpoint keeps in bf16.
#pragma once

#include "device/gpu_stream.h"
#include "kernels/api/linear.h"

namespace quire::cuda {

// y = bias in every row, added to what is there if the layer accumulates.
void place_bias(GpuStream& stream, const LinearParams& params);

}  // namespace quire::cuda
