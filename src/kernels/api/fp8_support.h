// Whether linear() multiplies FP8 with FP8 for a weight of kernels/cuda/linear/fp8_linear.h.
#pragma once

#include "device/stream.h"
#include "kernels/api/linear.h"

namespace quire {

// False for CPUs and for GPUs but Hopper's; there cuBLASLt is asked for every kind of product that
// linear() makes of the weight.
bool supports_fp8_products(Stream& stream, const WeightSpec& spec);

}  // namespace quire
