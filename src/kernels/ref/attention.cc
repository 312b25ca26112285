#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

// Returns the factor of the codes of a quantized cache.
double scale_of(const KvCacheView& kv, const void* cache, const float* head_scale, int64_t block,
                int64_t head, int64_t offset) {
  if (has_token_scales(kv.dtype)) {
    return to_float(
        static_cast<const bfloat16*>(cache)[token_scale_index(kv, block, head, offset)]);
  }
  return head_scale == nullptr || !is_fp8(kv.dtype) ? 1.0 : head_scale[head];
}

struct Positions {
  int32_t begin;
  int32_t end;
};

// Keys and values of one head of one request, read once for all rows that attend to them.
struct HeadCache {
  int32_t begin;               // the first position
  std::vector<double> keys;    // [positions, head_dim]
  std::vector<double> values;  // [positions, value_dim]
};

HeadCache read_head(const KvCacheView& kv, const int32_t* block_table, int64_t kv_head,
                    Positions positions) {
  const int64_t d = kv.value_dim();
  const void* values = kv.is_latent() ? kv.key : kv.value;
  const float* value_scale = kv.is_latent() ? kv.key_scale : kv.value_scale;
  HeadCache cache{.begin = positions.begin, .keys = {}, .values = {}};
  for (int32_t position = positions.begin; position < positions.end; ++position) {
    const int64_t block = block_table[position / kv.block_size];
    const int64_t offset = position % kv.block_size;
    const double of_key = scale_of(kv, kv.key, kv.key_scale, block, kv_head, offset);
    for (int64_t i = 0; i < kv.head_dim; ++i) {
      const int64_t at = key_index(kv, block, kv_head, offset, i);
      cache.keys.push_back(of_key * load_element(kv.key, kv.dtype, at));
    }
    const double of_value = scale_of(kv, values, value_scale, block, kv_head, offset);
    for (int64_t i = 0; i < d; ++i) {
      const int64_t at = kv.is_latent() ? key_index(kv, block, kv_head, offset, i)
                                        : value_index(kv, block, kv_head, offset, i);
      cache.values.push_back(of_value * load_element(values, kv.dtype, at));
    }
  }
  return cache;
}

struct Row {
  const float* query;
  int32_t head;
  int32_t position;
  Positions sees;
  float* out;
};

double position_bias(const PagedAttentionParams& p, const Row& row, int32_t position) {
  const int32_t reach = p.position_bias_reach;
  const int32_t distance = std::clamp(position - row.position, -reach, reach);
  return p.position_bias[row.head * position_bias_stride(reach) + kPositionBiasPadding + reach +
                         distance];
}

double score_of(const PagedAttentionParams& p, const Row& row, const HeadCache& cache,
                int32_t position) {
  const int64_t d = p.kv.head_dim;
  const double* key = cache.keys.data() + (position - cache.begin) * d;
  double dot = 0.0;
  for (int64_t i = 0; i < d; ++i) {
    const float q = is_in_pairs(p.kv.dtype) ? to_float(to_bfloat16(row.query[i])) : row.query[i];
    dot += double{q} * key[i];
  }
  double score = dot * p.scale;
  if (p.soft_cap > 0.0f) score = p.soft_cap * std::tanh(score / p.soft_cap);
  if (p.alibi_slopes != nullptr) {
    score -= double{p.alibi_slopes[row.head]} * std::abs(position - row.position);
  }
  if (p.position_bias != nullptr) score += position_bias(p, row, position);
  return score;
}

void attend_row(const PagedAttentionParams& p, const Row& row, const HeadCache& cache) {
  const int64_t d = p.kv.value_dim();
  double max_score =
      p.sinks != nullptr ? p.sinks[row.head] : -std::numeric_limits<double>::infinity();
  std::vector<double> scores;
  for (int32_t position = row.sees.begin; position < row.sees.end; ++position) {
    scores.push_back(score_of(p, row, cache, position));
    max_score = std::max(max_score, scores.back());
  }
  double total = p.sinks != nullptr ? std::exp(p.sinks[row.head] - max_score) : 0.0;
  std::vector<double> out(d, 0.0);
  for (int32_t position = row.sees.begin; position < row.sees.end; ++position) {
    const double weight = std::exp(scores[position - row.sees.begin] - max_score);
    const double* values = cache.values.data() + (position - cache.begin) * d;
    total += weight;
    for (int64_t i = 0; i < d; ++i) out[i] += weight * values[i];
  }
  for (int64_t i = 0; i < d; ++i) row.out[i] = static_cast<float>(out[i] / total);
}

// Returns the positions that the token at `position`, number t of the step, attends to, in a
// request of seq_len tokens.
Positions seen_positions(const PagedAttentionParams& p, int64_t t, int32_t position,
                         int32_t seq_len) {
  int32_t begin = p.sliding_window > 0 ? std::max(0, position - p.sliding_window + 1) : 0;
  if (p.window_is_chunk) begin = position / p.sliding_window * p.sliding_window;
  if (p.seen_ends != nullptr) return {begin, p.seen_ends[t]};
  int32_t end = position + 1;
  if (!p.causal) end = p.sliding_window > 0 ? position + p.sliding_window : seq_len;
  return {begin, std::min(end, seq_len)};
}

}  // namespace

void paged_attention(const PagedAttentionParams& p) {
  const int32_t group = p.num_heads / p.kv.num_kv_heads;
  for (int32_t r = 0; r < p.num_reqs; ++r) {
    const int64_t first = p.query_start_loc[r];
    const auto query_len = static_cast<int32_t>(p.query_start_loc[r + 1] - first);
    std::vector<Positions> sees;  // by token of the request
    Positions all{p.seq_lens[r], 0};
    for (int32_t i = 0; i < query_len; ++i) {
      const int32_t position = p.seq_lens[r] - query_len + i;
      sees.push_back(seen_positions(p, first + i, position, p.seq_lens[r]));
      all = {std::min(all.begin, sees[i].begin), std::max(all.end, sees[i].end)};
    }
    for (int32_t kv_head = 0; kv_head < p.kv.num_kv_heads; ++kv_head) {
      const HeadCache cache = read_head(p.kv, p.block_table + r * p.max_blocks, kv_head, all);
      for (int32_t i = 0; i < query_len; ++i) {
        for (int32_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
          const int64_t t = first + i;
          attend_row(p,
                     {.query = p.query + t * p.query_stride + h * p.kv.head_dim,
                      .head = h,
                      .position = p.seq_lens[r] - query_len + i,
                      .sees = sees[i],
                      .out = p.out + (t * p.num_heads + h) * p.kv.value_dim()},
                     cache);
        }
      }
    }
  }
}

}  // namespace quire::ref
