// The attention kernels for this instruction set.
#include "kernels/cpu/attention/attention-inl.h"

namespace quire {
namespace {

struct Avx512Bf16Attention {
  static constexpr int kRowBlock = 8;
  static constexpr int kAccumulators = 16;
  static constexpr int64_t kDirectRows = 8;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const AttentionKernels kAttentionAvx512Bf16 = {
    .item_rows = kAttentionRows,
    .item = {nullptr, &attend<Avx512Bf16Attention, CacheBf16>},
    .combine = &combine,
};

}  // namespace quire::cpu
