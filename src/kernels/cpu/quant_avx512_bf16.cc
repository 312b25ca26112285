// Products with quantized weights for this instruction set. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/quant_codes_avx512.h"
// clang-format on

namespace quire {
namespace {

constexpr int64_t kFusedRows = 4;
constexpr int64_t kQuadRows = 2;
// 24 of 32 registers hold sums of 12 x 32 outputs.
constexpr int64_t kRowBlock = 12;
// 28 hold the sums and totals of 7 x 32.
constexpr int64_t kSmallGroupRows = 7;
constexpr bool kLooksUpAll = true;
constexpr int kBlockStrips = 2;

}  // namespace
}  // namespace quire

#include "kernels/cpu/quant.inc"

namespace quire::cpu {

const QuantKernels kQuantAvx512Bf16 = kQuantOverVectors;

}  // namespace quire::cpu
