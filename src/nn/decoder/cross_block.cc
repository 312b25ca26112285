#include "nn/decoder/cross_block.h"

#include <algorithm>
#include <utility>

#include "kernels/api/attention.h"
#include "kernels/api/norm.h"
#include "nn/products/block_norm.h"
#include "nn/products/gated_rows.h"
#include "nn/products/linear_product.h"

namespace quire {
namespace {

constexpr int64_t kRowsAtOnce = 128;  // rows of a source

// The sizes of the buffers, in the order in which the constructor takes them.
struct CrossSizes {
  int64_t normed, heads, key_value;  // floats
  int64_t linear_workspace_bytes = 0, attention_workspace_bytes, cut_bytes;

  CrossSizes(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
             const Stream& stream)
      : normed(limits.max_tokens * spec.hidden_size),
        heads(limits.max_tokens * spec.cross.rows()),
        key_value(kRowsAtOnce * 2 * spec.cross.kv_rows()) {
    const auto add = [&](int64_t max_rows, const LinearWeights& linear) {
      linear_workspace_bytes =
          std::max(linear_workspace_bytes, quire::linear_workspace_bytes(stream, max_rows, linear));
    };
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      const CrossWeights& layer = weights.layer(i).cross;
      add(limits.max_tokens, layer.q);
      add(kRowsAtOnce, layer.kv);
      add(limits.max_tokens, layer.o);
    }
    const int64_t segments = CrossBlock::max_segments(limits);
    attention_workspace_bytes = paged_attention_workspace_bytes(
        stream, limits.max_tokens, segments, spec.cross.max_source_len, spec.cross.num_heads,
        spec.cross.head_dim);
    cut_bytes = paged_attention_cut_bytes(stream, segments);
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (const int64_t count : {normed, heads, heads, key_value}) sum += Arena::padded(count * 4);
    for (const int64_t bytes : {linear_workspace_bytes, attention_workspace_bytes, cut_bytes})
      sum += Arena::padded(bytes);
    return sum;
  }
};

}  // namespace

int64_t CrossBlock::memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                                 const DecoderLimits& limits, const Stream& stream) {
  return CrossSizes(spec, weights, limits, stream).bytes();
}

CrossBlock::CrossBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                       const DecoderLimits& limits, std::vector<KvCacheView> layers, Stream& stream,
                       Arena& arena)
    : spec_(spec), weights_(weights), stream_(stream), layers_(std::move(layers)) {
  const CrossSizes sizes(spec, weights, limits, stream);
  normed_ = arena.allocate<float>(sizes.normed);
  queries_ = arena.allocate<float>(sizes.heads);
  heads_ = arena.allocate<float>(sizes.heads);
  key_value_ = arena.allocate<float>(sizes.key_value);
  linear_workspace_ = arena.allocate_bytes(sizes.linear_workspace_bytes);
  attention_workspace_ = arena.allocate_bytes(sizes.attention_workspace_bytes);
  attention_workspace_bytes_ = sizes.attention_workspace_bytes;
  cut_ = arena.allocate_bytes(sizes.cut_bytes);
}

void CrossBlock::write(const float* rows, const int64_t* slots, int64_t count) {
  for (int64_t first = 0; first < count; first += kRowsAtOnce) {
    const int64_t some = std::min(kRowsAtOnce, count - first);
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      if (!spec_.layers[layer].reads_source) continue;
      run_linear(stream_, {.weights = weights_.layer(layer).cross.kv,
                           .x = rows + first * spec_.cross.source_size,
                           .y = key_value_,
                           .num_tokens = some,
                           .workspace = linear_workspace_});
      qkv_to_cache(stream_, {.qkv = key_value_,
                             .qkv_stride = 2 * spec_.cross.kv_rows(),
                             .k_norm_weight = weights_.layer(layer).cross.k_norm,
                             .norm_eps = spec_.norm_eps,
                             .rope_style = RopeStyle::kNone,
                             .slot_mapping = slots + first,
                             .kv = layers_[layer],
                             .num_tokens = some,
                             .num_heads = 0});
    }
  }
}

void CrossBlock::run(size_t index, const CrossSegments& segments, float* hidden,
                     int64_t num_tokens) {
  if (spec_.cross.gated && !segments.any_reads) return;
  const CrossWeights& weights = weights_.layer(index).cross;
  const bool norms_sum = spec_.block.residual == ResidualStyle::kNormOfSum;
  const auto norm = [&](float* out) {
    run_block_norm(stream_, spec_,
                   {.weights = weights.norm, .x = hidden, .out = out, .num_tokens = num_tokens});
  };
  if (!norms_sum) norm(normed_);
  run_linear(stream_, {.weights = weights.q,
                       .x = norms_sum ? hidden : normed_,
                       .y = queries_,
                       .num_tokens = num_tokens,
                       .workspace = linear_workspace_});
  if (spec_.cross.qk_norm) {
    rms_norm(stream_, {.x = queries_,
                       .weight = weights.q_norm,
                       .out = queries_,
                       .eps = spec_.norm_eps,
                       .num_tokens = num_tokens * spec_.cross.num_heads,
                       .hidden_size = spec_.cross.head_dim});
  }
  copy_queries(index, segments.query_copies);
  paged_attention(stream_, {.query = queries_,
                            .query_stride = spec_.cross.rows(),
                            .kv = layers_[index],
                            .query_start_loc = segments.start_loc,
                            .seq_lens = segments.source_lens,
                            .block_table = segments.block_table,
                            .max_blocks = segments.max_blocks,
                            .num_reqs = segments.count,
                            .num_heads = spec_.cross.num_heads,
                            .scale = spec_.cross.scale,
                            .causal = false,
                            .out = heads_,
                            .workspace = attention_workspace_,
                            .workspace_bytes = attention_workspace_bytes_,
                            .batch_cut = cut_,
                            .max_query_len = segments.max_len});
  add_output(weights, segments, hidden, num_tokens);
  if (norms_sum) norm(hidden);
}

void CrossBlock::copy_queries(size_t index, std::span<const QueryCopy> copies) const {
  const int64_t dim = spec_.cross.head_dim;
  const std::vector<CrossSpec::AlignmentHead>& heads = spec_.cross.alignment_heads;
  for (const QueryCopy& copy : copies) {
    for (size_t i = 0; i < heads.size(); ++i) {
      if (static_cast<size_t>(heads[i].layer) != index) continue;
      for (int64_t token = 0; token < copy.num_tokens; ++token) {
        const float* const query =
            queries_ + (copy.first_token + token) * spec_.cross.rows() + heads[i].head * dim;
        const auto place = token * std::ssize(heads) + static_cast<int64_t>(i);
        std::copy_n(query, dim, copy.out + place * dim);
      }
    }
  }
}

void CrossBlock::add_output(const CrossWeights& weights, const CrossSegments& segments,
                            float* hidden, int64_t num_tokens) {
  const bool is_gated = spec_.cross.gated;
  run_linear(stream_, {.weights = weights.o,
                       .x = heads_,
                       .y = is_gated ? normed_ : hidden,
                       .num_tokens = num_tokens,
                       .accumulate = !is_gated,
                       .workspace = linear_workspace_});
  if (!is_gated) return;
  add_gated_rows({.rows = normed_,
                  .gate = *weights.gate,
                  .wanted = segments.reads,
                  .num_rows = num_tokens,
                  .width = spec_.hidden_size},
                 hidden);
}

}  // namespace quire
