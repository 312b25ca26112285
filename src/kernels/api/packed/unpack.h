// unpack_weight_row() is for callers that read a packed weight once, as floats.
#pragma once

#include <cstdint>

#include "device/isa.h"
#include "kernels/api/linear.h"

namespace quire {

// Writes row `row` of a weight, quantized or not, to `out` [K] as floats, in the order of x. The
// weight was packed for the CPU's kernels of `isa`. Rows in ascending order are faster. Any thread
// may call it.
void unpack_weight_row(Isa isa, const PackedWeight& weight, int64_t row, float* out);

}  // namespace quire
