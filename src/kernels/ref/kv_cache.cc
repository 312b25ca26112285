#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

void rotate(const QkvToCacheParams& p, int64_t token, float* head) {
  if (p.rope_style == RopeStyle::kNone) return;
  const int64_t half = p.rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    int64_t first = i, second = i + half;
    if (p.rope_style == RopeStyle::kInterleaved) {
      first = 2 * i;
      second = 2 * i + 1;
    } else if (p.rope_style == RopeStyle::kNeoxHalves) {
      const int64_t quarter = half / 2;
      first = i < quarter ? i : i + quarter;
      second = first + quarter;
    }
    const double c = p.cos[token * half + i];
    const double s = p.sin[token * half + i];
    const double a = head[first];
    const double b = head[second];
    head[first] = static_cast<float>(a * c - b * s);
    head[second] = static_cast<float>(b * c + a * s);
  }
}

// `heads` are those of q or of k, side by side.
void norm_heads(const QkvToCacheParams& p, float* heads, int64_t num_heads, const float* weight,
                const float* bias) {
  if (weight == nullptr) return;
  const int64_t d = p.kv.head_dim;
  const bool together = p.qk_norm == QkNorm::kAllHeads;
  const int64_t size = together ? num_heads * d : d;
  for (int64_t h = 0; h < (together ? 1 : num_heads); ++h) {
    float* x = heads + h * d;
    if (p.qk_norm == QkNorm::kLayerHead || p.qk_norm == QkNorm::kBiasedHead) {
      layer_norm({.x = x,
                  .weight = weight + (p.qk_norm == QkNorm::kLayerHead ? h * d : 0),
                  .bias = bias,
                  .out = x,
                  .eps = p.norm_eps,
                  .num_tokens = 1,
                  .hidden_size = size});
    } else {
      rms_norm({.x = x,
                .weight = weight,
                .out = x,
                .eps = p.norm_eps,
                .num_tokens = 1,
                .hidden_size = size});
    }
  }
}

void prepare_heads(const QkvToCacheParams& p, int64_t token, float* heads, int64_t num_heads,
                   const float* norm_weight, const float* norm_bias) {
  if (!p.norm_after_rope) norm_heads(p, heads, num_heads, norm_weight, norm_bias);
  for (int64_t h = 0; h < num_heads; ++h) rotate(p, token, heads + h * p.kv.head_dim);
  if (p.norm_after_rope) norm_heads(p, heads, num_heads, norm_weight, norm_bias);
}

struct Slot {
  int64_t block, head, offset;
};

// Returns the divisor of a head's elements. A scale for this token alone is also stored.
float choose_scale(const KvCacheView& kv, void* cache, const float* head_scale, const Slot& slot,
                   const float* x) {
  if (is_fp8(kv.dtype)) return head_scale == nullptr ? 1.0f : head_scale[slot.head];
  if (!has_token_scales(kv.dtype)) return 1.0f;
  float largest = 0.0f;
  for (int64_t i = 0; i < kv.head_dim; ++i) largest = std::max(largest, std::fabs(x[i]));
  bfloat16 scale = to_bfloat16(largest / 127.0f);
  if (to_float(scale) < largest / 127.0f) ++scale.bits;
  static_cast<bfloat16*>(cache)[token_scale_index(kv, slot.block, slot.head, slot.offset)] = scale;
  return scale.bits == 0 ? 1.0f : to_float(scale);
}

}  // namespace

void store_key(const KvCacheView& kv, int64_t block, int64_t head, int64_t offset, const float* x) {
  const float scale = choose_scale(kv, kv.key, kv.key_scale, {block, head, offset}, x);
  for (int64_t i = 0; i < kv.head_dim; ++i) {
    store_element(kv.key, kv.dtype, key_index(kv, block, head, offset, i), x[i] / scale);
  }
}

void qkv_to_cache(const QkvToCacheParams& p) {
  const KvCacheView& kv = p.kv;
  const int64_t d = kv.head_dim;
  const int64_t s = kv.block_size;
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    float* row = p.qkv + t * p.qkv_stride;
    prepare_heads(p, t, row, p.num_heads, p.q_norm_weight, p.q_norm_bias);
    if (p.q_scale != nullptr) {
      for (int64_t i = 0; i < p.num_heads * d; ++i) row[i] *= p.q_scale[t];
    }
    float* keys = row + p.num_heads * d;
    prepare_heads(p, t, keys, kv.num_kv_heads, p.k_norm_weight, p.k_norm_bias);
    const float* values = keys + kv.num_kv_heads * d;
    const int64_t block = p.slot_mapping[t] / s;
    const int64_t offset = p.slot_mapping[t] % s;
    for (int64_t h = 0; h < kv.num_kv_heads; ++h) {
      const Slot slot{block, h, offset};
      store_key(kv, block, h, offset, keys + h * d);
      const float value_scale = choose_scale(kv, kv.value, kv.value_scale, slot, values + h * d);
      for (int64_t i = 0; i < d; ++i) {
        store_element(kv.value, kv.dtype, value_index(kv, block, h, offset, i),
                      values[h * d + i] / value_scale);
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
  auto* pool = static_cast<uint8_t*>(p.pool);
  for (int64_t i = 0; i < p.num_copies; ++i) {
    for (int64_t b = 0; b < p.block_bytes; ++b) {
      pool[p.destination[i] * p.block_bytes + b] = pool[p.source[i] * p.block_bytes + b];
    }
  }
}

}  // namespace quire::ref
