// The attention kernels for this instruction set.
#include "kernels/cpu/attention/attention-inl.h"

namespace quire {
namespace {

struct Avx2Attention {
  static constexpr int kRowBlock = 6;
  static constexpr int kAccumulators = 6;
  static constexpr int64_t kDirectRows = 4;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const AttentionKernels kAttentionAvx2 = {
    .item_rows = kAttentionRows,
    .item = {&attend<Avx2Attention, CacheF32>, &attend<Avx2Attention, CacheBf16>,
             &attend<Avx2Attention, CacheF16>, &attend<Avx2Attention, CacheE4M3>,
             &attend<Avx2Attention, CacheE5M2>, &attend<Avx2Attention, CacheInt8>},
    .combine = &combine,
};

}  // namespace quire::cpu
