// unpack_weight_row() gives packed weights back as the floats that they stand for, for callers that
// look at a weight once.
#pragma once

#include <cstdint>

#include "device/isa.h"
#include "kernels/api/linear.h"

namespace quire {

// Row `row` of a weight, quantized or not, that was packed for the CPU's kernels of an instruction
// set. out: [K], in the order of x. Rows in ascending order are faster. Any thread.
void unpack_weight_row(Isa isa, const PackedWeight& weight, int64_t row, float* out);

}  // namespace quire
