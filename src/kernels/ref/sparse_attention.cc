#include "kernels/api/sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

void rotate(const IndexToCacheParams& p, int64_t token, float* x) {
  const int64_t half = p.rotary_dim / 2;
  const std::vector<float> before(x, x + p.rotary_dim);
  for (int64_t i = 0; p.rope_style != RopeStyle::kNone && i < half; ++i) {
    const int64_t first = p.rope_style == RopeStyle::kNeox ? i : 2 * i;
    const int64_t second = p.rope_style == RopeStyle::kNeox ? i + half : 2 * i + 1;
    const double c = p.cos[token * half + i];
    const double s = p.sin[token * half + i];
    x[first] = static_cast<float>(before[first] * c - before[second] * s);
    x[second] = static_cast<float>(before[second] * c + before[first] * s);
  }
}

double key_element(const KvCacheView& keys, int64_t block, int64_t offset, int64_t dim) {
  double scale = 1.0;
  if (has_token_scales(keys.dtype))
    scale =
        to_float(static_cast<const bfloat16*>(keys.key)[token_scale_index(keys, block, 0, offset)]);
  return scale * load_element(keys.key, keys.dtype, key_index(keys, block, 0, offset, dim));
}

double score(const ChooseTokensParams& p, int64_t token, const int32_t* blocks, int32_t position) {
  const int64_t d = p.keys.head_dim;
  double sum = 0.0;
  for (int64_t h = 0; h < p.num_heads; ++h) {
    double dot = 0.0;
    for (int64_t i = 0; i < d; ++i) {
      dot += p.query[token * p.query_stride + h * d + i] *
             key_element(p.keys, blocks[position / p.keys.block_size], position % p.keys.block_size,
                         i);
    }
    sum += p.weights[token * p.weights_stride + h] * std::max(dot, 0.0);
  }
  return sum;
}

}  // namespace

void index_to_cache(const IndexToCacheParams& p) {
  const int64_t d = p.keys.head_dim;
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    float* key = p.key + t * p.key_stride;
    layer_norm({.x = key,
                .weight = p.norm_weight,
                .bias = p.norm_bias,
                .out = key,
                .eps = p.norm_eps,
                .num_tokens = 1,
                .hidden_size = d});
    rotate(p, t, key);
    for (int64_t h = 0; h < p.num_heads; ++h) rotate(p, t, p.query + t * p.query_stride + h * d);
    const int64_t slot = p.slot_mapping[t];
    store_key(p.keys, slot / p.keys.block_size, 0, slot % p.keys.block_size, key);
  }
}

void choose_tokens(const ChooseTokensParams& p) {
  for (int32_t r = 0; r < p.num_reqs; ++r) {
    for (int32_t t = p.query_start_loc[r]; t < p.query_start_loc[r + 1]; ++t) {
      const int32_t position = p.seq_lens[r] - (p.query_start_loc[r + 1] - t);
      std::vector<double> scores;
      for (int32_t i = 0; i <= position; ++i)
        scores.push_back(score(p, t, p.block_table + r * p.max_blocks, i));
      std::vector<int32_t> order(scores.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
      const int32_t count = num_chosen(position, p.top_k);
      std::sort(order.begin(), order.begin() + count);
      std::copy_n(order.begin(), count, p.chosen + int64_t{t} * p.top_k);
    }
  }
}

void sparse_attention(const SparseAttentionParams& params) {
  PagedAttentionParams p = params.attention;
  const KvCacheView kv = p.kv;
  const int64_t num_blocks = (params.top_k + kv.block_size - 1) / kv.block_size;
  std::vector<uint8_t> memory(num_blocks * kv.block_stride * size_bytes(kv.dtype));
  std::vector<int32_t> blocks(num_blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  p.kv.key = memory.data();
  p.block_table = blocks.data();
  p.max_blocks = num_blocks;
  p.num_reqs = 1;
  const int32_t one[] = {0, 1};
  for (int32_t r = 0; r < params.attention.num_reqs; ++r) {
    const int32_t end = params.attention.query_start_loc[r + 1];
    const int32_t* table = params.attention.block_table + r * params.attention.max_blocks;
    for (int32_t t = params.attention.query_start_loc[r]; t < end; ++t) {
      const int32_t count = num_chosen(params.attention.seq_lens[r] - (end - t), params.top_k);
      for (int32_t i = 0; i < count; ++i) {
        const int32_t position = params.chosen[int64_t{t} * params.top_k + i];
        const int64_t from = table[position / kv.block_size], at = position % kv.block_size;
        const int64_t block = i / kv.block_size, offset = i % kv.block_size;
        for (int64_t d = 0; d < kv.head_dim; ++d) {
          store_element(p.kv.key, kv.dtype, key_index(p.kv, block, 0, offset, d),
                        load_element(kv.key, kv.dtype, key_index(kv, from, 0, at, d)));
        }
        if (!has_token_scales(kv.dtype)) continue;
        static_cast<bfloat16*>(p.kv.key)[token_scale_index(p.kv, block, 0, offset)] =
            static_cast<const bfloat16*>(kv.key)[token_scale_index(kv, from, 0, at)];
      }
      p.query = params.attention.query + t * p.query_stride;
      p.out = params.attention.out + int64_t{t} * p.num_heads * kv.latent_dim;
      p.query_start_loc = one;
      p.seq_lens = &count;
      paged_attention(p);
    }
  }
}

}  // namespace quire::ref
