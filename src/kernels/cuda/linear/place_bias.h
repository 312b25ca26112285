// place_bias() writes the bias of a linear layer to y if the product cannot add it. The product is
// then added to y, and the sum is rounded once. If y is bf16 the bias itself is rounded too, which
// does not change a bias that the checkpoint stores in bf16.
#pragma once

#include "device/gpu_stream.h"
#include "kernels/api/linear.h"

namespace quire::cuda {

// Writes the bias to every row of y, or adds it if the layer accumulates.
void place_bias(GpuStream& stream, const LinearParams& params);

}  // namespace quire::cuda
