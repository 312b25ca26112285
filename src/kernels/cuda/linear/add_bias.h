// add_bias() adds the bias of a linear layer in a pass of its own, where the product cannot take it
// along.
#pragma once

#include "device/gpu_stream.h"
#include "kernels/api/linear.h"

namespace quire::cuda {

void add_bias(GpuStream& stream, const LinearParams& params);

}  // namespace quire::cuda
