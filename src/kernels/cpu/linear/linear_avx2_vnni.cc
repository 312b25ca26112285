// The linear kernels that use AVX-VNNI. The SIMD header comes first: the kernels are written over
// it.
// clang-format off
#include "kernels/cpu/simd/simd_avx2.h"
#include "kernels/cpu/kernel_tables.h"
// clang-format on

namespace quire {
namespace {

constexpr int64_t kRowBlock = 6;
constexpr int64_t kWideAccumulators = 4;
// 12 of 16 registers hold sums of 6 x 16 outputs, or of 3 x 32.
constexpr int64_t kInt8RowBlock = 6;
constexpr int64_t kInt8WideSums = 6;
constexpr int64_t kAheadFewRows = 4096;
constexpr int64_t kDecodedBlocks = 0;

}  // namespace
}  // namespace quire

// clang-format off
#include "kernels/cpu/linear/linear.inc"
#include "kernels/cpu/linear/linear_int8.inc"
// clang-format on

namespace quire::cpu {

const LinearKernels kLinearInt8Avx2Vnni = kLinearInt8<StoredInt8>;

}  // namespace quire::cpu
