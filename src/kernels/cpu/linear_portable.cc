// clang-format off: the SIMD header comes first, the kernels are written over it
#include "kernels/cpu/simd_portable.h"
#include "kernels/cpu/kernel_tables.h"
namespace quire { namespace {
constexpr int64_t kRowBlock = 4;         // accumulators of 16 lanes; the baseline has few registers
constexpr int64_t kWideAccumulators = 4;
} }  // namespace
#include "kernels/cpu/linear.inc"
// clang-format on

namespace quire::cpu {

const LinearKernels kLinearPortable = {
    .row_block = kRowBlock,
    .x_is_bf16 = false,
    .pack_x = &pack_x_floats<false>,
    .pack_x_bf16 = &pack_x_floats<true>,
    .panels = {&linear_panels<StoredF32>, &linear_panels<StoredBf16>, &linear_panels<StoredF16>},
};

}  // namespace quire::cpu
