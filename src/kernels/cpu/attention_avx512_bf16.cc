// clang-format off: the SIMD header comes first, the kernels are written over it
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/math.inc"
namespace quire { namespace {
constexpr int kAttentionRowBlock = 8;  // rows whose accumulators are held in registers
constexpr int kAttentionVectors = 2;   // vectors of 16 per row
constexpr int64_t kDirectRows = 8;     // up to here the cache is converted on the fly, beyond it once per tile
} }  // namespace
#include "kernels/cpu/attention.inc"
// clang-format on

namespace quire::cpu {

const AttentionKernels kAttentionAvx512Bf16 = {
    .item = {nullptr, &attend<CacheBf16>, nullptr},
    .combine = &combine,
};

}  // namespace quire::cpu
