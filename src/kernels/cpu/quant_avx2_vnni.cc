// Products with quantized weights in integers, with AVX-VNNI. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/quant_codes_avx2.h"
#include "kernels/cpu/quant_registers_avx2.h"
// clang-format on

namespace quire {
namespace {

template <cpu::CodeKind KIND>
constexpr int kIntegerDecodedStrips = KIND == cpu::kCode8 ? 4 : 1;

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/quant.inc"
#include "kernels/cpu/quant_integers.inc"
// clang-format on

namespace quire::cpu {

const QuantKernels kQuantAvx2Vnni = kQuantOverIntegers;

}  // namespace quire::cpu
