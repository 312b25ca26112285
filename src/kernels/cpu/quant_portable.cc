// Products with quantized weights for this instruction set. The SIMD header comes first: the
// kernels are written over it.
// clang-format off
#include "kernels/cpu/simd_portable.h"
#include "kernels/cpu/quant_codes_portable.h"
// clang-format on

namespace quire {
namespace {

constexpr int64_t kFusedRows = 1;
constexpr int64_t kQuadRows = 0;
// Sums of 16 lanes; the baseline has few registers.
constexpr int64_t kRowBlock = 4;
constexpr int kBlockStrips = 1;

}  // namespace
}  // namespace quire

#include "kernels/cpu/quant.inc"

namespace quire::cpu {

const QuantKernels kQuantPortable = {
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
