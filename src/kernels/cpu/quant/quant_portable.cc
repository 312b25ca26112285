// Products with quantized weights for this instruction set. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd/simd_portable.h"
#include "kernels/cpu/quant/quant_codes_portable.h"
// clang-format on

namespace quire {
namespace {

template <cpu::CodeKind>
constexpr int64_t kFusedRows = 1;
constexpr int64_t kQuadRows = 0;
// Sums of 16 lanes; the baseline has few registers.
constexpr int64_t kRowBlock = 4;
constexpr int64_t kSmallGroupRows = kRowBlock;
constexpr int kSumVectors = 8;
constexpr int kDecodedStrips = 1;
constexpr bool kLooksUpAll = false;
constexpr int kBlockStrips = 1;
constexpr bool kFloatBlocks = false;
template <cpu::CodeKind, bool>
constexpr bool kPairsApart = false;

}  // namespace
}  // namespace quire

#include "kernels/cpu/quant/quant.inc"

namespace quire::cpu {

const QuantKernels kQuantPortable = kQuantOverVectors;
const QuantKernels kQuantPortableCodes = with_code_math<CodeMath>(kQuantOverVectors);

}  // namespace quire::cpu
