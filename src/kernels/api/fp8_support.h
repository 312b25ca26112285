// supports_fp8_products() says whether linear() multiplies FP8 by FP8 for a weight as
// kernels/cuda/linear/fp8_linear.h describes it.
#pragma once

#include "device/stream.h"
#include "kernels/api/linear.h"

namespace quire {

// Returns false for CPUs and for every GPU that is not a Hopper. On a Hopper it asks cuBLASLt
// whether it has each kind of product that linear() computes with the weight.
bool supports_fp8_products(Stream& stream, const WeightSpec& spec);

}  // namespace quire
