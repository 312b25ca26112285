#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

struct Row {
  const float* query;
  int32_t head;
  int32_t position;
  int32_t end;  // of what it sees
  const int32_t* block_table;
  float* out;
};

// What the codes of a quantized cache are multiplied by.
double scale_of(const KvCacheView& kv, const void* cache, const float* head_scale, int64_t block,
                int64_t head, int64_t offset) {
  if (has_token_scales(kv.dtype)) {
    return to_float(
        static_cast<const bfloat16*>(cache)[token_scale_index(kv, block, head, offset)]);
  }
  return head_scale == nullptr || !is_fp8(kv.dtype) ? 1.0 : head_scale[head];
}

double key_dot(const PagedAttentionParams& p, const Row& row, int32_t position) {
  const KvCacheView& kv = p.kv;
  const int64_t kv_head = row.head / (p.num_heads / kv.num_kv_heads);
  const int64_t block = row.block_table[position / kv.block_size];
  double dot = 0.0;
  for (int64_t i = 0; i < kv.head_dim; ++i) {
    const float q = is_in_pairs(kv.dtype) ? to_float(to_bfloat16(row.query[i])) : row.query[i];
    const int64_t at = key_index(kv, block, kv_head, position % kv.block_size, i);
    dot += double{q} * load_element(kv.key, kv.dtype, at);
  }
  return dot * scale_of(kv, kv.key, kv.key_scale, block, kv_head, position % kv.block_size);
}

double position_bias(const PagedAttentionParams& p, const Row& row, int32_t position) {
  const int32_t reach = p.position_bias_reach;
  const int32_t distance = std::clamp(position - row.position, -reach, reach);
  return p.position_bias[row.head * position_bias_stride(reach) + kPositionBiasPadding + reach +
                         distance];
}

void attend_row(const PagedAttentionParams& p, const Row& row) {
  const KvCacheView& kv = p.kv;
  const int64_t d = kv.value_dim();
  const int64_t kv_head = row.head / (p.num_heads / kv.num_kv_heads);
  int32_t begin = p.sliding_window > 0 ? std::max(0, row.position - p.sliding_window + 1) : 0;
  if (p.window_is_chunk) begin = row.position / p.sliding_window * p.sliding_window;
  double max_score =
      p.sinks != nullptr ? p.sinks[row.head] : -std::numeric_limits<double>::infinity();
  std::vector<double> scores;
  for (int32_t position = begin; position < row.end; ++position) {
    double score = key_dot(p, row, position) * p.scale;
    if (p.soft_cap > 0.0f) score = p.soft_cap * std::tanh(score / p.soft_cap);
    if (p.alibi_slopes != nullptr)
      score -= double{p.alibi_slopes[row.head]} * std::abs(position - row.position);
    if (p.position_bias != nullptr) score += position_bias(p, row, position);
    scores.push_back(score);
    max_score = std::max(max_score, score);
  }
  double total = p.sinks != nullptr ? std::exp(p.sinks[row.head] - max_score) : 0.0;
  std::vector<double> out(d, 0.0);
  for (int32_t position = begin; position < row.end; ++position) {
    const double weight = std::exp(scores[position - begin] - max_score);
    total += weight;
    const int64_t block = row.block_table[position / kv.block_size];
    const int64_t offset = position % kv.block_size;
    const void* values = kv.is_latent() ? kv.key : kv.value;
    const double scale = scale_of(kv, values, kv.is_latent() ? kv.key_scale : kv.value_scale, block,
                                  kv_head, offset);
    for (int64_t i = 0; i < d; ++i) {
      const int64_t at = kv.is_latent() ? key_index(kv, block, kv_head, offset, i)
                                        : value_index(kv, block, kv_head, offset, i);
      out[i] += weight * scale * load_element(values, kv.dtype, at);
    }
  }
  for (int64_t i = 0; i < d; ++i) row.out[i] = static_cast<float>(out[i] / total);
}

}  // namespace

void paged_attention(const PagedAttentionParams& p) {
  const int64_t d = p.kv.head_dim;
  for (int32_t r = 0; r < p.num_reqs; ++r) {
    const int32_t query_len = p.query_start_loc[r + 1] - p.query_start_loc[r];
    for (int32_t i = 0; i < query_len; ++i) {
      const int64_t t = p.query_start_loc[r] + i;
      const int32_t position = p.seq_lens[r] - query_len + i;
      int32_t end = position + 1;
      if (!p.causal) end = p.sliding_window > 0 ? position + p.sliding_window : p.seq_lens[r];
      end = std::min(end, p.seq_lens[r]);
      for (int32_t h = 0; h < p.num_heads; ++h) {
        attend_row(p, {.query = p.query + t * p.query_stride + h * d,
                       .head = h,
                       .position = position,
                       .end = p.seen_ends != nullptr ? p.seen_ends[t] : end,
                       .block_table = p.block_table + r * p.max_blocks,
                       .out = p.out + (t * p.num_heads + h) * p.kv.value_dim()});
      }
    }
  }
}

}  // namespace quire::ref
