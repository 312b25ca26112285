// Low-rank updates for this instruction set. The SIMD header comes first: the kernels are written
// over it.
// clang-format off
#include "kernels/cpu/simd/simd_portable.h"
#include "kernels/cpu/lora/lora_kernels.h"
#include "kernels/cpu/lora/lora.inc"
// clang-format on

namespace quire::cpu {

const LoraKernels kLoraPortable = {.shrink = &shrink, .expand = &expand};

}  // namespace quire::cpu
