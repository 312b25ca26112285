// The attention kernels for quantized caches over bf16 dot products and byte permutations (VBMI).
#include "kernels/cpu/attention/attention-inl.h"

namespace quire {
namespace {

struct Avx512VbmiAttention {
  static constexpr int kRowBlock = 8;
  static constexpr int kAccumulators = 16;
  static constexpr int64_t kDirectRows = 8;
};

}  // namespace
}  // namespace quire

namespace quire::cpu {

const AttentionKernels kAttentionAvx512Codes = {
    .item_rows = kAttentionRows,
    .item = {nullptr, nullptr, nullptr, &attend<Avx512VbmiAttention, CacheE4M3>,
             &attend<Avx512VbmiAttention, CacheE5M2>, &attend<Avx512VbmiAttention, CacheInt8>},
    .combine = &combine,
};

}  // namespace quire::cpu
