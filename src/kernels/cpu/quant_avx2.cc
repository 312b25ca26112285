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
// 10 of 16 registers hold sums of 5 x 16 outputs; with 12 the compiler spills.
constexpr int64_t kRowBlock = 5;
constexpr int64_t kSmallGroupRows = kRowBlock;
constexpr int kSumVectors = 10;
constexpr bool kLooksUpAll = false;
constexpr int kBlockStrips = 1;

}  // namespace
}  // namespace quire

#include "kernels/cpu/quant.inc"

namespace quire::cpu {

const QuantKernels kQuantAvx2 = kQuantOverVectors;

}  // namespace quire::cpu
