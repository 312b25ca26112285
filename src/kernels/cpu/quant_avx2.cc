// Products with quantized weights for this instruction set. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/quant_codes_avx2.h"
// clang-format on

namespace quire {
namespace {

template <cpu::CodeKind>
constexpr int64_t kFusedRows = 2;
constexpr int64_t kQuadRows = 0;
// 12 of 16 registers hold sums of 6 x 16 outputs.
constexpr int64_t kRowBlock = 6;
constexpr int64_t kSmallGroupRows = kRowBlock;
constexpr int kSumVectors = 10;
constexpr int kDecodedStrips = 1;
constexpr bool kLooksUpAll = false;
constexpr int kBlockStrips = 1;
constexpr bool kFloatBlocks = true;
// In integers 12 of 16 registers hold sums of 6 x 16 outputs.
constexpr int64_t kIntegerRowBlock = 6;
constexpr int64_t kIntegerFusedRows = 4;
constexpr int64_t kIntegerQuadRows = 1;
constexpr int kIntegerSumVectors = 4;
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
