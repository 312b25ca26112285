// Products with quantized weights for this instruction set. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx2.h"
#include "kernels/cpu/quant/quant_codes_avx2.h"
#include "kernels/cpu/quant/quant_registers_avx2.h"
// clang-format on

namespace quire {
namespace {

template <cpu::CodeKind>
constexpr int kIntegerDecodedStrips = 1;
// Measured in decode: 2 to 7 % less time for these, 1 to 3 % more for others.
template <cpu::CodeKind KIND, bool>
constexpr bool kPairsApart = KIND == cpu::kCode8 || KIND == cpu::kTable8;
// Of two passes over a panel only the first waits for memory, so one is better; but expanding the
// scales of all strips side by side costs more than that.
template <cpu::CodeKind KIND, bool kDirectScales>
constexpr int64_t kIntegerQuadRows = kDirectScales ? (KIND == cpu::kCode8 ? 2 : 1) : 0;

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/quant/quant.inc"
#include "kernels/cpu/quant/integers/quant_integers.inc"
// clang-format on

namespace quire::cpu {

const QuantKernels kQuantAvx2 = kQuantOverVectors;
const QuantKernels kQuantAvx2Integers = kQuantOverIntegers;

}  // namespace quire::cpu
