// The linear kernels that use AVX512_VNNI. The SIMD header comes first: the kernels are written
// over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/kernel_tables.h"
// clang-format on

namespace quire {
namespace {

constexpr int64_t kRowBlock = 12;
constexpr int64_t kWideAccumulators = 24;
// 24 of 32 registers hold sums of 12 x 32 outputs; of many rows, blocks of 8 were 4 % faster.
constexpr int64_t kInt8RowBlock = 12;
constexpr int64_t kInt8ManyRowsBlock = 8;
constexpr int64_t kInt8WideSums = 24;
constexpr int64_t kAheadFewRows = 4096;
constexpr int64_t kDecodedBlocks = 0;

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/linear/linear.inc"
#include "kernels/cpu/linear/linear_int8.inc"
// clang-format on

namespace quire::cpu {

const LinearKernels kLinearInt8Avx512Vnni = kLinearInt8<StoredInt8, kInt8ManyRowsBlock>;

}  // namespace quire::cpu
