// The attention kernels for this instruction set. The SIMD header comes first: the kernels are
// written over it.
// clang-format off
#include "kernels/cpu/simd/simd_avx2.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/element/math-inl.h"
// clang-format on

namespace quire {
namespace {

// Rows whose accumulators are held in registers, and how many vectors of 16 those are at most.
constexpr int kAttentionRowBlock = 6;
constexpr int kAttentionAccumulators = 6;
// Up to here a cache that needs conversion is read in place, beyond it copied once per tile.
constexpr int64_t kDirectRows = 4;

}  // namespace
}  // namespace quire

#include "kernels/cpu/attention/attention.inc"

namespace quire::cpu {

const AttentionKernels kAttentionAvx2 = {
    .item_rows = kAttentionRows,
    .item = {&attend<CacheF32>, &attend<CacheBf16>, &attend<CacheF16>, &attend<CacheE4M3>,
             &attend<CacheE5M2>, &attend<CacheInt8>},
    .combine = &combine,
};

}  // namespace quire::cpu
