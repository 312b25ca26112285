// Products with quantized weights for this instruction set. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/quant_codes_avx2.h"
#include "kernels/cpu/quant_registers_avx2.h"
// clang-format on

namespace quire {
namespace {

template <cpu::CodeKind>
constexpr int kIntegerDecodedStrips = 1;

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/quant.inc"
#include "kernels/cpu/quant_integers.inc"
// clang-format on

namespace quire::cpu {

const QuantKernels kQuantAvx2 = kQuantOverVectors;
const QuantKernels kQuantAvx2Integers = kQuantOverIntegers;

}  // namespace quire::cpu
