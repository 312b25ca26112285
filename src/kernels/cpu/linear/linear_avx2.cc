// The linear kernels for this instruction set. The SIMD header comes first: the kernels are
// written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx2.h"
#include "kernels/cpu/kernel_tables.h"
// clang-format on

namespace quire {
namespace {

// 12 of 16 registers hold accumulators of 6 x 16 outputs, 2 a row of weights.
constexpr int64_t kRowBlock = 6;
// Measured in decode on Zen 5: 4 to 8 % less time than 4 KB ahead, with AVX-512 1 % more.
constexpr int64_t kAheadFewRows = 8192;
constexpr int64_t kDecodedBlocks = 3;
// Up to so many accumulators all 32 outputs of a panel are taken at once.
constexpr int64_t kWideAccumulators = 4;
constexpr int64_t kInt8RowBlock = 6;
constexpr int64_t kInt8WideSums = 2;
// Widening takes few instructions beside the products, so it pays later.
constexpr int64_t kInt8DecodedBlocks = 4;

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/linear/linear.inc"
#include "kernels/cpu/linear/linear_int8.inc"
#include "kernels/cpu/linear/linear_int8_pairs.inc"
// clang-format on

namespace quire::cpu {

const LinearKernels kLinearAvx2 = {
    .row_block = kRowBlock,
    .x_bytes = 4,
    .x_padding = kXPadding,
    .rows_apart = false,
    .scratch_bytes = kScratchBytes,
    .pack_x = &pack_x_floats<false>,
    .pack_x_bf16 = &pack_x_floats<true>,
    .panels = {&linear_panels<StoredF32>, &linear_panels<StoredBf16>, &linear_panels<StoredF16>},
    .panels_int8 = nullptr,
};

const LinearKernels kLinearInt8Avx2 = kLinearInt8<StoredInt8Pairs>;

}  // namespace quire::cpu
