// The linear kernels for this instruction set. The SIMD header comes first: the kernels are
// written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/kernel_tables.h"
// clang-format on

namespace quire {
namespace {

// 24 of 32 registers hold accumulators of 12 x 32 outputs.
constexpr int64_t kRowBlock = 12;
// Up to so many accumulators all 32 outputs of a panel are taken at once.
constexpr int64_t kWideAccumulators = 24;
constexpr int64_t kAheadFewRows = 4096;
constexpr int64_t kDecodedBlocks = 0;

}  // namespace
}  // namespace quire

#include "kernels/cpu/linear/linear.inc"

namespace quire::cpu {

const LinearKernels kLinearAvx512Bf16 = {
    .row_block = kRowBlock,
    .x_bytes = 2,
    .x_padding = kXPadding,
    .rows_apart = false,
    .scratch_bytes = kScratchBytes,
    .pack_x = nullptr,
    .pack_x_bf16 = &pack_x_pairs,
    .panels = {nullptr, &linear_panels<StoredBf16Dot>, nullptr},
    .panels_int8 = nullptr,
};

}  // namespace quire::cpu
