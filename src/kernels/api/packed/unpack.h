// Packed weights as the floats that they stand for, for who must look at a weight once.
#pragma once

#include <cstdint>

#include "device/isa.h"
#include "kernels/api/linear.h"

namespace quire {

// Whether a weight of this kind lies in rows of panels where the CPU's kernels have this instruction
// set. What tiles read lies otherwise.
bool lies_in_rows(Isa isa, const WeightSpec& spec);

// Row `row` of a weight that lies in rows, quantized or not. out: [K], in the order of x. Rows in
// ascending order are faster. Any thread.
void unpack_weight_row(const PackedWeight& weight, int64_t row, float* out);

}  // namespace quire
