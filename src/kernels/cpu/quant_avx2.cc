// Products with quantized weights for this instruction set. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/quant_codes_avx2.h"
// clang-format on

namespace quire {
namespace {

constexpr int64_t kFusedRows = 2;
constexpr int64_t kQuadRows = 0;
// 10 of 16 registers hold sums of 5 x 16 outputs; with 12 the compiler spills.
constexpr int64_t kRowBlock = 5;
constexpr int kBlockStrips = 1;

}  // namespace
}  // namespace quire

#include "kernels/cpu/quant.inc"

namespace quire::cpu {

const QuantKernels kQuantAvx2 = {
    .fused_rows = kFusedRows,
    .row_block = kRowBlock,
    .small_group_rows = kRowBlock,
    .pair_slots = kPairSlots,
    .pack_x = {&pack_quant_x<false>, &pack_quant_x<true>},
    .panels = {&quant_panels<kCode2>, &quant_panels<kCode3>, &quant_panels<kCode4>,
               &quant_panels<kCode5>, &quant_panels<kCode6>, &quant_panels<kCode8>,
               &quant_panels<kTable4>, &quant_panels<kTable8>},
};

}  // namespace quire::cpu
