// The kernels of states for this instruction set. The SIMD header comes first: the kernels are
// written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx2.h"
#include "kernels/cpu/state/state_kernels.h"
#include "kernels/cpu/element/math.inc"
#include "kernels/cpu/state/state.inc"
#include "kernels/cpu/state/conv.inc"
#include "kernels/cpu/state/scan.inc"
#include "kernels/cpu/state/delta.inc"
// clang-format on

namespace quire::cpu {

const StateKernels kStateAvx2 = {
    .conv = &conv_columns,
    .selective_scan = &scan_columns,
    .ssd = &ssd_columns,
    .delta_rule = &delta_columns,
    .step_gates = &step_gates_row,
    .sigmoid = &sigmoid_row,
    .gated_norm = &gated_norm_group,
};

}  // namespace quire::cpu
