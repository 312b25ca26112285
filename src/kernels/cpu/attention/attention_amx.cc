// The attention kernels on the tiles of AMX, for caches in pairs. The SIMD and tile headers
// come first: the kernels are written over them.
// clang-format off
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/simd/tiles_amx.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/element/math-inl.h"
// clang-format on

#include "kernels/cpu/attention/attention_tiles.inc"

namespace quire::cpu {

const AttentionKernels kAttentionAmx = {
    .item_rows = kAttentionMaxRows,
    .item = {nullptr, &attend<CacheBf16>, nullptr, &attend<CacheE4M3>, &attend<CacheE5M2>,
             &attend<CacheInt8>},
    .combine = &combine,
};

}  // namespace quire::cpu
