#include "nn/decoder/latent_block.h"

#include <algorithm>

#include "kernels/api/gated_norm.h"
#include "nn/products/linear_product.h"
#include "nn/products/product_inputs.h"

namespace quire {
namespace {

// Elements of each buffer, in the order in which the constructor takes them.
struct LatentSizes {
  int64_t down = 0, query = 0, queries = 0, sums = 0, workspace_bytes = 0;
  DType activation_type;

  LatentSizes(const DecoderSpec& spec, const DecoderWeights& weights, const BlockLimits& limits,
              const Stream& stream)
      : activation_type(limits.activation_type) {
    const int64_t max_tokens = limits.max_tokens;
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      const AttentionSpec& attention = spec.layers[i].attention;
      const LatentSpec& latent = attention.latent;
      if (!latent.any()) continue;
      const int64_t heads = attention.num_heads;
      down = std::max(down, max_tokens * latent.down_rows(heads));
      if (latent.query_rank > 0) query = std::max(query, max_tokens * latent.query_rows(heads));
      queries = std::max(queries, max_tokens * attention.q_rows());
      sums = std::max(sums, max_tokens * heads * latent.rank);
      const LatentWeights& layer = weights.layer(i).latent;
      for (const auto* side : {&layer.key_up, &layer.value_up}) {
        for (const LinearWeights& head : *side) {
          workspace_bytes = std::max(
              workspace_bytes,
              head_linear_workspace_bytes(stream, max_tokens, head.weight.parts.front().spec));
        }
      }
    }
  }

  int64_t bytes() const {
    int64_t sum = Arena::padded(workspace_bytes);
    for (const int64_t count : {down, query, queries, sums})
      sum += Arena::padded(count * size_bytes(activation_type));
    return sum;
  }
};

}  // namespace

int64_t LatentBlock::memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                                  const BlockLimits& limits, const Stream& stream) {
  return LatentSizes(spec, weights, limits, stream).bytes();
}

LatentBlock::LatentBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                         const BlockLimits& limits, Stream& stream, Arena& arena)
    : spec_(spec), weights_(weights), stream_(stream), heads_(spec.layers.size()) {
  const LatentSizes sizes(spec, weights, limits, stream);
  for (size_t i = 0; i < heads_.size(); ++i) {
    const LatentWeights& layer = weights.layer(i).latent;
    for (const LinearWeights& head : layer.key_up)
      heads_[i].key_up.push_back(&head.weight.parts.front());
    for (const LinearWeights& head : layer.value_up)
      heads_[i].value_up.push_back(&head.weight.parts.front());
  }
  const auto allocate = [&](int64_t count) {
    return allocate_activations(arena, limits.activation_type, count);
  };
  down_ = allocate(sizes.down);
  query_ = allocate(sizes.query);
  queries_ = allocate(sizes.queries);
  sums_ = allocate(sizes.sums);
  head_workspace_ = arena.allocate_bytes(sizes.workspace_bytes);
}

void LatentBlock::project(size_t layer, ConstActivations x, const LatentStep& step,
                          void* linear_workspace) {
  const AttentionSpec& attention = spec_.layers[layer].attention;
  const LatentSpec& latent = attention.latent;
  const LatentWeights& weights = weights_.layer(layer).latent;
  const int64_t down_rows = latent.down_rows(attention.num_heads);
  run_linear(stream_, {.weights = weights.down,
                       .x = x,
                       .y = down_,
                       .num_tokens = step.num_tokens,
                       .workspace = linear_workspace});
  int64_t query_stride = 0;
  const ConstActivations query =
      make_queries(layer, step.num_tokens, linear_workspace, &query_stride);
  head_linear(stream_, {.x = query,
                        .x_stride = query_stride,
                        .x_head_stride = int64_t{latent.nope_dim} + latent.rope_dim,
                        .weights = heads_[layer].key_up,
                        .y = queries_,
                        .y_stride = attention.q_rows(),
                        .y_head_stride = attention.head_dim,
                        .num_tokens = step.num_tokens,
                        .workspace = head_workspace_});
  latent_to_cache(stream_, {.latent = down_.from(down_rows - latent.rank - latent.rope_dim),
                            .latent_stride = down_rows,
                            .norm_weight = weights.norm,
                            .norm_eps = latent.norm_eps,
                            .query = query,
                            .query_stride = query_stride,
                            .nope_dim = latent.nope_dim,
                            .absorbed = queries_,
                            .rope_style = attention.rope_style,
                            .cos = step.cos,
                            .sin = step.sin,
                            .slot_mapping = step.slot_mapping,
                            .kv = step.kv,
                            .num_tokens = step.num_tokens,
                            .num_heads = attention.num_heads});
}

ConstActivations LatentBlock::make_queries(size_t layer, int64_t num_tokens, void* linear_workspace,
                                           int64_t* stride) {
  const AttentionSpec& attention = spec_.layers[layer].attention;
  const LatentSpec& latent = attention.latent;
  const LatentWeights& weights = weights_.layer(layer).latent;
  const int64_t down_rows = latent.down_rows(attention.num_heads);
  *stride = down_rows;
  if (latent.query_rank == 0) return down_;
  gated_norm(stream_, {.x = down_,
                       .x_stride = down_rows,
                       .weight = weights.query_norm,
                       .eps = latent.norm_eps,
                       .num_tokens = num_tokens,
                       .size = latent.query_rank,
                       .group_size = latent.query_rank});
  run_linear(stream_, {.weights = weights.query_up,
                       .x = down_,
                       .x_stride = down_rows,
                       .y = query_,
                       .num_tokens = num_tokens,
                       .workspace = linear_workspace});
  *stride = latent.query_rows(attention.num_heads);
  return query_;
}

void LatentBlock::expand_values(size_t layer, Activations out, int64_t num_tokens) {
  const AttentionSpec& attention = spec_.layers[layer].attention;
  const LatentSpec& latent = attention.latent;
  head_linear(stream_, {.x = sums_,
                        .x_stride = int64_t{attention.num_heads} * latent.rank,
                        .x_head_stride = latent.rank,
                        .weights = heads_[layer].value_up,
                        .y = out,
                        .y_stride = attention.output_size(),
                        .y_head_stride = latent.value_dim,
                        .num_tokens = num_tokens,
                        .workspace = head_workspace_});
}

}  // namespace quire
