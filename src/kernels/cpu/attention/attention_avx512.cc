// The attention kernels for this instruction set.
#include "kernels/cpu/attention/attention-inl.h"

namespace quire {
namespace {

struct Avx512Attention {
  static constexpr int kRowBlock = 8;
  static constexpr int kAccumulators = 16;
  static constexpr int64_t kDirectRows = 8;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const AttentionKernels kAttentionAvx512 = {
    .item_rows = kAttentionRows,
    .item = {&attend<Avx512Attention, CacheF32>, &attend<Avx512Attention, CacheBf16>,
             &attend<Avx512Attention, CacheF16>, &attend<Avx512Attention, CacheE4M3>,
             &attend<Avx512Attention, CacheE5M2>, &attend<Avx512Attention, CacheInt8>},
    .combine = &combine,
};

}  // namespace quire::cpu
