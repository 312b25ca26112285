// Products with quantized weights in integers, with AVX512_VNNI. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/quant/quant_codes_avx512.h"
#include "kernels/cpu/quant/quant_registers_avx512.h"
// clang-format on

namespace quire {
namespace {

// 24 of 32 registers hold sums of 12 x 32 outputs.
constexpr int64_t kIntegerRowBlock = 12;
constexpr int64_t kIntegerFusedRows = 8;
constexpr int kIntegerSumVectors = 28;
template <cpu::CodeKind, bool>
constexpr int64_t kIntegerQuadRows = 4;
template <cpu::CodeKind>
constexpr int kIntegerDecodedStrips = 4;

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/quant/quant.inc"
#include "kernels/cpu/quant/integers/quant_integers.inc"
#include "kernels/cpu/quant/integers/quant_bytes.inc"
// clang-format on

namespace quire::cpu {

const QuantKernels kQuantAvx512Vnni = kQuantOverIntegers;
const QuantKernels kQuantAvx512Bytes = over_bytes(kQuantOverIntegers);

}  // namespace quire::cpu
