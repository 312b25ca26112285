// Products with quantized weights in integers, with AVX-VNNI. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx2.h"
#include "kernels/cpu/quant/quant_codes_avx2.h"
#include "kernels/cpu/quant/quant_registers_avx2.h"
// clang-format on

namespace quire {
namespace {

template <cpu::CodeKind KIND>
constexpr int kIntegerDecodedStrips = KIND == cpu::kCode8 ? 4 : 1;
// Measured in decode: 1 to 4 % less time; 3 % more for codes of 2 bits.
template <cpu::CodeKind KIND, bool>
constexpr bool kPairsApart = KIND != cpu::kCode2;
// One pass over a panel instead of two: 4 to 10 % less time for codes of 4 to 6 bits, 6 to 8 % more
// for those of fewer.
template <cpu::CodeKind KIND, bool kDirectScales>
constexpr int64_t kIntegerQuadRows = kDirectScales ? (KIND == cpu::kCode8 ? 2 : 1)
                                                   : (KIND >= cpu::kCode4 ? 1 : 0);

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/quant/quant.inc"
#include "kernels/cpu/quant/integers/quant_integers.inc"
// clang-format on

namespace quire::cpu {

const QuantKernels kQuantAvx2Vnni = kQuantOverIntegers;

}  // namespace quire::cpu
