// The linear kernels for this instruction set. The SIMD header comes first: the kernels are
// written over it.
// clang-format off
#include "kernels/cpu/simd/simd_portable.h"
#include "kernels/cpu/kernel_tables.h"
// clang-format on

namespace quire {
namespace {

// Accumulators of 16 lanes; the baseline has few registers.
constexpr int64_t kRowBlock = 4;
// Up to so many accumulators all 32 outputs of a panel are taken at once.
constexpr int64_t kWideAccumulators = 4;
constexpr int64_t kInt8RowBlock = 4;
constexpr int64_t kInt8WideSums = 2;
constexpr int64_t kAheadFewRows = 4096;
constexpr int64_t kDecodedBlocks = 0;

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/linear/linear.inc"
#include "kernels/cpu/linear/linear_int8.inc"
// clang-format on

namespace quire::cpu {

const LinearKernels kLinearPortable = {
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

const LinearKernels kLinearInt8Portable = kLinearInt8<StoredInt8>;

}  // namespace quire::cpu
