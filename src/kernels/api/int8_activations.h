// Activations of int8 for quantized weights (api/quant.h): ComputeType::kInt8 with a WeightSpec that
// takes them. Each group of 16 to 256 activations of a row is rounded to int8 with a scale of its
// own, max|x| / 127, and the products of a group are summed exactly.
#pragma once

#include "kernels/api/linear.h"

namespace quire {

// Whether the codes stand for integers, in groups of up to 256.
bool takes_int8_activations(const WeightSpec& spec);

}  // namespace quire
