#include "kernels/api/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "kernels/api/latent.h"
#include "kernels/api/sparse_attention.h"
#include "kernels/cpu/attention/kv_codes.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

constexpr int64_t kWorthWaking = 1 << 14;

template <typename Word>
void scatter_words(const void* from, void* to, int64_t n, int64_t stride) {
  const auto* source = static_cast<const Word*>(from);
  auto* target = static_cast<Word*>(to);
  for (int64_t i = 0; i < n; ++i) target[i * stride] = source[i];
}

// Copies n elements of `bytes` each from a contiguous row to every `stride`th element.
void scatter(const void* from, void* to, int64_t n, int64_t stride, int64_t bytes) {
  if (bytes == 1) return scatter_words<uint8_t>(from, to, n, stride);
  if (bytes == 2) return scatter_words<uint16_t>(from, to, n, stride);
  scatter_words<uint32_t>(from, to, n, stride);
}

// One head of one token, with its place in the cache and its scale.
struct HeadRow {
  const float* x;           // [D]
  void* cache;              // K or V
  const float* head_scale;  // [Hkv] or null
  int64_t block, head, offset;
};

// Converts a head to the elements of the cache, and stores the token's own scale if there is one.
void convert_row(const KvCacheView& kv, const cpu::ElementKernels& kernels, const HeadRow& row,
                 uint8_t* converted) {
  if (is_fp8(kv.dtype)) {
    const float scale = row.head_scale == nullptr ? 1.0f : row.head_scale[row.head];
    cpu::encode_float8_row(kv.dtype, row.x, kv.head_dim, scale, converted);
  } else if (kv.dtype == DType::kI8) {
    static_cast<bfloat16*>(row.cache)[token_scale_index(kv, row.block, row.head, row.offset)] =
        cpu::encode_int8_row(row.x, kv.head_dim, reinterpret_cast<int8_t*>(converted));
  } else {
    kernels.convert(cpu::storage_of(kv.dtype), row.x, converted, kv.head_dim);
  }
}

void store_key(const KvCacheView& kv, const cpu::ElementKernels& kernels, const HeadRow& row) {
  alignas(64) uint8_t converted[kMaxAttentionHeadDim * sizeof(float)];
  const int64_t bytes = size_bytes(kv.dtype);
  convert_row(kv, kernels, row, converted);
  auto* key =
      static_cast<uint8_t*>(kv.key) + key_index(kv, row.block, row.head, row.offset, 0) * bytes;
  if (kv.order == KvOrder::kTokenMajor) {
    std::memcpy(key, converted, static_cast<size_t>(kv.head_dim * bytes));
  } else if (is_in_pairs(kv.dtype)) {  // a pair of dims is one 32-bit or 16-bit word
    scatter(converted, key, kv.head_dim / 2, kv.block_size, 2 * bytes);
  } else {
    scatter(converted, key, kv.head_dim, kv.block_size, bytes);
  }
}

// The norm of q or of k; there is none if `weight` is null.
struct NormOfHeads {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

// `heads` are those of q, or those of k, contiguous.
void norm_heads(const QkvToCacheParams& p, const cpu::ElementKernels& kernels, float* heads,
                int64_t num_heads, const NormOfHeads& norm) {
  const int64_t d = p.kv.head_dim;
  if (p.qk_norm == QkNorm::kAllHeads) {
    kernels.rms_norm(heads, norm.weight, heads, nullptr, p.norm_eps, num_heads * d);
    return;
  }
  for (int64_t h = 0; h < num_heads; ++h) {
    float* head = heads + h * d;
    if (p.qk_norm == QkNorm::kHead) {
      kernels.rms_norm(head, norm.weight, head, nullptr, p.norm_eps, d);
    } else {
      const float* weight = norm.weight + (p.qk_norm == QkNorm::kLayerHead ? h * d : 0);
      kernels.layer_norm(head, weight, norm.bias, head, p.norm_eps, d);
    }
  }
}

void rotate_heads(const QkvToCacheParams& p, const cpu::ElementKernels& kernels, int64_t token,
                  float* heads, int64_t num_heads) {
  if (p.rope_style == RopeStyle::kNone || p.rotary_dim == 0) return;
  const int64_t half = p.rotary_dim / 2;
  const int32_t num_parts = p.rope_style == RopeStyle::kNeoxHalves ? 2 : 1;
  const int32_t part_dim = p.rotary_dim / num_parts;
  for (int64_t h = 0; h < num_heads; ++h) {
    for (int32_t part = 0; part < num_parts; ++part) {
      const int64_t first_pair = token * half + part * (part_dim / 2);
      kernels.rope({.head = heads + h * p.kv.head_dim + part * part_dim,
                    .rotary_dim = part_dim,
                    .interleaved = p.rope_style == RopeStyle::kInterleaved,
                    .cos = p.cos + first_pair,
                    .sin = p.sin + first_pair});
    }
  }
}

void norm_and_rotate(const QkvToCacheParams& p, const cpu::ElementKernels& kernels, int64_t token,
                     float* heads, int64_t num_heads, const NormOfHeads& norm) {
  const bool norms = norm.weight != nullptr;
  if (norms && !p.norm_after_rope) norm_heads(p, kernels, heads, num_heads, norm);
  rotate_heads(p, kernels, token, heads, num_heads);
  if (norms && p.norm_after_rope) norm_heads(p, kernels, heads, num_heads, norm);
}

void store_token(const QkvToCacheParams& p, const cpu::ElementKernels& kernels, int64_t token) {
  const KvCacheView& kv = p.kv;
  const int64_t d = kv.head_dim;
  const int64_t s = kv.block_size;
  const int64_t bytes = size_bytes(kv.dtype);
  const bool pairs = is_in_pairs(kv.dtype);
  float* row = p.qkv + token * p.qkv_stride;
  norm_and_rotate(p, kernels, token, row, p.num_heads, {p.q_norm_weight, p.q_norm_bias});
  if (p.q_scale != nullptr) {
    for (int64_t i = 0; i < p.num_heads * d; ++i) row[i] *= p.q_scale[token];
  }
  float* keys = row + p.num_heads * d;
  norm_and_rotate(p, kernels, token, keys, kv.num_kv_heads, {p.k_norm_weight, p.k_norm_bias});
  const float* values = keys + kv.num_kv_heads * d;
  const int64_t block = p.slot_mapping[token] / s;
  const int64_t offset = p.slot_mapping[token] % s;
  alignas(64) uint8_t converted[kMaxAttentionHeadDim * sizeof(float)];
  for (int64_t h = 0; h < kv.num_kv_heads; ++h) {
    store_key(kv, kernels, {keys + h * d, kv.key, kv.key_scale, block, h, offset});
    convert_row(kv, kernels, {values + h * d, kv.value, kv.value_scale, block, h, offset},
                converted);
    auto* value = static_cast<uint8_t*>(kv.value) + value_index(kv, block, h, offset, 0) * bytes;
    if (pairs) {
      scatter(converted, value, d, 2, bytes);
    } else {
      std::memcpy(value, converted, static_cast<size_t>(d * bytes));
    }
  }
}

void store_latent(const LatentToCacheParams& p, const cpu::ElementKernels& kernels, int64_t token) {
  const KvCacheView& kv = p.kv;
  const int64_t rank = kv.latent_dim;
  const int32_t rope_dim = kv.head_dim - kv.latent_dim;
  const auto rotate = [&](float* x) {
    if (p.rope_style == RopeStyle::kNone) return;
    kernels.rope({.head = x,
                  .rotary_dim = rope_dim,
                  .interleaved = p.rope_style == RopeStyle::kInterleaved,
                  .cos = p.cos + token * (rope_dim / 2),
                  .sin = p.sin + token * (rope_dim / 2)});
  };
  float* latent = p.latent + token * p.latent_stride;
  kernels.rms_norm(latent, p.norm_weight, latent, nullptr, p.norm_eps, rank);
  rotate(latent + rank);
  const float* query = p.query + token * p.query_stride + p.nope_dim;
  float* absorbed = p.absorbed + token * p.num_heads * kv.head_dim + rank;
  for (int32_t head = 0; head < p.num_heads; ++head) {
    std::copy_n(query, rope_dim, absorbed);
    rotate(absorbed);
    query += p.nope_dim + rope_dim;
    absorbed += kv.head_dim;
  }
  const int64_t slot = p.slot_mapping[token];
  store_key(kv, kernels,
            {latent, kv.key, kv.key_scale, slot / kv.block_size, 0, slot % kv.block_size});
}

void store_index_key(const IndexToCacheParams& p, const cpu::ElementKernels& kernels,
                     int64_t token) {
  const int64_t dim = p.keys.head_dim;
  const auto rotate = [&](float* x) {
    if (p.rope_style == RopeStyle::kNone) return;
    kernels.rope({.head = x,
                  .rotary_dim = p.rotary_dim,
                  .interleaved = p.rope_style == RopeStyle::kInterleaved,
                  .cos = p.cos + token * (p.rotary_dim / 2),
                  .sin = p.sin + token * (p.rotary_dim / 2)});
  };
  float* key = p.key + token * p.key_stride;
  kernels.layer_norm(key, p.norm_weight, p.norm_bias, key, p.norm_eps, dim);
  rotate(key);
  float* query = p.query + token * p.query_stride;
  for (int32_t head = 0; head < p.num_heads; ++head) rotate(query + head * dim);
  const int64_t slot = p.slot_mapping[token];
  store_key(
      p.keys, kernels,
      {key, p.keys.key, p.keys.key_scale, slot / p.keys.block_size, 0, slot % p.keys.block_size});
}

}  // namespace

void cpu::index_to_cache(Stream& stream, const IndexToCacheParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  QUIRE_CHECK(params.keys.head_dim <= kMaxAttentionHeadDim && params.keys.num_kv_heads == 1,
              "[index_to_cache] {} heads of {}", params.keys.num_kv_heads, params.keys.head_dim);
  QUIRE_CHECK(params.rope_style != RopeStyle::kNeoxHalves,
              "[index_to_cache] expected heads that rotate as a whole, got halves");
  const int64_t row = (int64_t{params.num_heads} + 1) * params.keys.head_dim;
  cpu::run_parallel(cpu_stream, params.num_tokens * row, kWorthWaking,
                    [&](int thread, int num_threads) {
                      const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
                      for (int64_t t = mine.begin; t < mine.end; ++t)
                        store_index_key(params, cpu::element_kernels(cpu_stream.isa()), t);
                    });
}

void cpu::latent_to_cache(Stream& stream, const LatentToCacheParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const int64_t row = (int64_t{params.num_heads} + 1) * params.kv.head_dim;
  QUIRE_CHECK(params.kv.is_latent() && params.kv.head_dim <= kMaxAttentionHeadDim,
              "[latent_to_cache] latents of {} in keys of {}", params.kv.latent_dim,
              params.kv.head_dim);
  QUIRE_CHECK(params.rope_style != RopeStyle::kNeoxHalves,
              "[latent_to_cache] expected heads that rotate as a whole, got halves");
  cpu::run_parallel(cpu_stream, params.num_tokens * row, kWorthWaking,
                    [&](int thread, int num_threads) {
                      const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
                      for (int64_t t = mine.begin; t < mine.end; ++t)
                        store_latent(params, cpu::element_kernels(cpu_stream.isa()), t);
                    });
}

void cpu::qkv_to_cache(Stream& stream, const QkvToCacheParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  QUIRE_CHECK(params.kv.head_dim <= kMaxAttentionHeadDim, "[qkv_to_cache] head_dim {} > {}",
              params.kv.head_dim, kMaxAttentionHeadDim);
  QUIRE_DCHECK(is_fp8(params.kv.dtype) || (!params.kv.key_scale && !params.kv.value_scale),
               "[qkv_to_cache] scales of heads for a cache of {}", to_string(params.kv.dtype));
  QUIRE_DCHECK(
      params.rotary_dim % (params.rope_style == RopeStyle::kNeoxHalves ? 4 : 2) == 0 &&
          params.rotary_dim <= params.kv.head_dim,
      "[qkv_to_cache] expected a rotary_dim of whole pairs and at most head_dim {}, got {}",
      params.kv.head_dim, params.rotary_dim);
  const auto& kernels = cpu::element_kernels(cpu_stream.isa());
  const int64_t row = (int64_t{params.num_heads} + 2 * params.kv.num_kv_heads) * params.kv.head_dim;
  cpu::run_parallel(cpu_stream, params.num_tokens * row, kWorthWaking,
                    [&](int thread, int num_threads) {
                      const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
                      for (int64_t t = mine.begin; t < mine.end; ++t)
                        store_token(params, kernels, t);
                    });
}

void cpu::kv_block_copy(Stream& stream, const KvBlockCopyParams& params) {
  (void)cpu::host(stream);
  auto* pool = static_cast<uint8_t*>(params.pool);
  // One thread copies in order, because a copy can read what an earlier one wrote.
  for (int64_t i = 0; i < params.num_copies; ++i) {
    const int64_t from = params.source[i] * params.block_bytes;
    const int64_t to = params.destination[i] * params.block_bytes;
    if (from == to) continue;
    std::memcpy(pool + to, pool + from, static_cast<size_t>(params.block_bytes));
  }
}

}  // namespace quire
