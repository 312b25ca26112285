// Products with quantized weights for this instruction set. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/quant/quant_codes_avx512.h"
#include "kernels/cpu/quant/quant_registers_avx512.h"
// clang-format on

#include "kernels/cpu/quant/quant.inc"

namespace quire::cpu {

const QuantKernels kQuantAvx512Bf16 = kQuantOverVectors;

}  // namespace quire::cpu
