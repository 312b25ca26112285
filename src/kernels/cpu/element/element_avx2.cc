// The element-wise kernels for this instruction set. The SIMD header comes first: the kernels are
// written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx2.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/element/math.inc"
#include "kernels/cpu/element/element.inc"
// clang-format on

namespace quire::cpu {

const ElementKernels kElementAvx2 = {
    .rms_norm = &rms_norm_row,
    .layer_norm = &layer_norm_row,
    .activate = &activate,
    .soft_cap = &soft_cap_range,
    .embed = &embed_row,
    .rope = &rope_head,
    .convert = &convert,
    .greatest = &greatest,
    .greatest_allowed = &greatest_allowed,
};

}  // namespace quire::cpu
