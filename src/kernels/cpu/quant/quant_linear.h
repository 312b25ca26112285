// linear() for weights with a QuantSpec. Callers use api/linear.h.
#pragma once

#include "kernels/api/linear.h"

namespace quire::cpu {

void quant_linear(Stream& stream, const LinearParams& params);
int64_t quant_linear_workspace_bytes(const Stream& stream, int64_t max_rows,
                                     const WeightSpec& spec);

}  // namespace quire::cpu
