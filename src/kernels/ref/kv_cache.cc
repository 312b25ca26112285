#include <cmath>
#include <vector>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

void rotate(const QkvToCacheParams& p, int64_t token, float* head) {
  if (p.rope_style == RopeStyle::kNone) return;
  const int64_t half = p.rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first = p.rope_style == RopeStyle::kNeox ? i : 2 * i;
    const int64_t second = p.rope_style == RopeStyle::kNeox ? i + half : 2 * i + 1;
    const double c = p.cos[token * half + i];
    const double s = p.sin[token * half + i];
    const double a = head[first];
    const double b = head[second];
    head[first] = static_cast<float>(a * c - b * s);
    head[second] = static_cast<float>(b * c + a * s);
  }
}

void prepare_head(const QkvToCacheParams& p, int64_t token, float* head, const float* norm_weight) {
  if (norm_weight != nullptr) {
    rms_norm({.x = head,
              .weight = norm_weight,
              .out = head,
              .eps = p.norm_eps,
              .num_tokens = 1,
              .hidden_size = p.kv.head_dim});
  }
  rotate(p, token, head);
}

}  // namespace

void qkv_to_cache(const QkvToCacheParams& p) {
  const KvCacheView& kv = p.kv;
  const int64_t d = kv.head_dim;
  const int64_t s = kv.block_size;
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    float* row = p.qkv + t * p.qkv_stride;
    for (int64_t h = 0; h < p.num_heads; ++h) prepare_head(p, t, row + h * d, p.q_norm_weight);
    float* keys = row + p.num_heads * d;
    const float* values = keys + kv.num_kv_heads * d;
    const int64_t block = p.slot_mapping[t] / s;
    const int64_t offset = p.slot_mapping[t] % s;
    for (int64_t h = 0; h < kv.num_kv_heads; ++h) {
      prepare_head(p, t, keys + h * d, p.k_norm_weight);
      for (int64_t i = 0; i < d; ++i) {
        store_element(kv.key, kv.dtype, key_index(kv, block, h, offset, i), keys[h * d + i]);
        store_element(kv.value, kv.dtype, value_index(kv, block, h, offset, i), values[h * d + i]);
      }
    }
  }
}

void rope_table(const RopeTableParams& p) {
  const int64_t half = p.rotary_dim / 2;
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = p.positions[t] * p.inv_freq[i];
      p.cos[t * half + i] = static_cast<float>(std::cos(angle) * p.scale);
      p.sin[t * half + i] = static_cast<float>(std::sin(angle) * p.scale);
    }
  }
}

void kv_block_copy(const KvBlockCopyParams& p) {
  const KvCacheView& kv = p.kv;
  const int64_t count = int64_t{kv.num_kv_heads} * kv.block_size * kv.head_dim;
  for (int64_t i = 0; i < p.num_copies; ++i) {
    for (void* cache : {kv.key, kv.value}) {
      for (int64_t e = 0; e < count; ++e) {
        store_element(cache, kv.dtype, p.destination[i] * kv.block_stride + e,
                      load_element(cache, kv.dtype, p.source[i] * kv.block_stride + e));
      }
    }
  }
}

}  // namespace quire::ref
