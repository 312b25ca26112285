// The attention kernels for this instruction set.
#include "kernels/cpu/attention/attention-inl.h"

namespace quire {
namespace {

struct PortableAttention {
  static constexpr int kRowBlock = 4;
  static constexpr int kAccumulators = 4;
  static constexpr int64_t kDirectRows = 4;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const AttentionKernels kAttentionPortable = {
    .item_rows = kAttentionRows,
    .item = {&attend<PortableAttention, CacheF32>, &attend<PortableAttention, CacheBf16>,
             &attend<PortableAttention, CacheF16>, &attend<PortableAttention, CacheE4M3>,
             &attend<PortableAttention, CacheE5M2>, &attend<PortableAttention, CacheInt8>},
    .combine = &combine,
};

}  // namespace quire::cpu
