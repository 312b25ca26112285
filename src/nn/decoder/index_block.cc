#include "nn/decoder/index_block.h"

#include <algorithm>

#include "nn/products/linear_product.h"
#include "nn/products/product_inputs.h"

namespace quire {
namespace {

// Elements of each buffer, in the order in which the constructor takes them.
struct IndexSizes {
  int64_t query = 0, key = 0, head_weights = 0, chosen = 0, workspace_bytes = 0;
  DType activation_type;

  IndexSizes(const DecoderSpec& spec, const DecoderLimits& limits, const Stream& stream)
      : activation_type(limits.activation_type) {
    for (const LayerSpec& layer : spec.layers) {
      const AttentionSpec& attention = layer.attention;
      const IndexSpec& index = attention.index;
      if (!index.any()) continue;
      query = std::max(query, limits.max_tokens * index.num_heads * index.head_dim);
      key = std::max(key, limits.max_tokens * index.head_dim);
      head_weights = std::max(head_weights, limits.max_tokens * index.num_heads);
      chosen = std::max(chosen, limits.max_tokens * index.top_k);
      // The workspace for the widest type that a cache can have.
      const int64_t attention_bytes = sparse_attention_workspace_bytes(
          stream, DType::kF32, attention.num_heads, attention.head_dim, index.top_k);
      const int64_t choice_bytes = choose_tokens_workspace_bytes(stream, limits.max_seq_len,
                                                                 index.num_heads, index.head_dim);
      workspace_bytes = std::max({workspace_bytes, attention_bytes, choice_bytes});
    }
  }

  int64_t bytes() const {
    int64_t sum = Arena::padded(workspace_bytes) +
                  Arena::padded(chosen * static_cast<int64_t>(sizeof(int32_t)));
    for (const int64_t count : {query, key, head_weights})
      sum += Arena::padded(count * size_bytes(activation_type));
    return sum;
  }
};

}  // namespace

int64_t IndexBlock::memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits,
                                 const Stream& stream) {
  return IndexSizes(spec, limits, stream).bytes();
}

IndexBlock::IndexBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                       const DecoderLimits& limits, Stream& stream, Arena& arena)
    : spec_(spec), weights_(weights), stream_(stream) {
  const IndexSizes sizes(spec, limits, stream);
  query_ = allocate_activations(arena, limits.activation_type, sizes.query);
  key_ = allocate_activations(arena, limits.activation_type, sizes.key);
  head_weights_ = allocate_activations(arena, limits.activation_type, sizes.head_weights);
  chosen_ = arena.allocate<int32_t>(sizes.chosen);
  workspace_ = arena.allocate_bytes(sizes.workspace_bytes);
}

void IndexBlock::choose(size_t layer, const ForwardInputs& inputs, const LayerCache& cache,
                        const IndexStep& step, void* linear_workspace) {
  const AttentionSpec& attention = spec_.layers[layer].attention;
  const IndexSpec& index = attention.index;
  if (!index.chooses()) return;
  const IndexWeights& weights = weights_.layer(layer).index;
  const KvGroupInputs& group = inputs.groups[static_cast<size_t>(cache.group)];
  const int64_t query_rows = int64_t{index.num_heads} * index.head_dim;
  run_linear(stream_, {.weights = weights.query,
                       .x = step.query_latent,
                       .x_stride = step.query_latent_stride,
                       .y = query_,
                       .num_tokens = inputs.num_tokens,
                       .workspace = linear_workspace});
  for (const auto& [linear, y] :
       {std::pair(&weights.key, key_), std::pair(&weights.head_weights, head_weights_)}) {
    run_linear(stream_, {.weights = *linear,
                         .x = step.x,
                         .y = y,
                         .num_tokens = inputs.num_tokens,
                         .workspace = linear_workspace});
  }
  index_to_cache(stream_, {.key = key_,
                           .key_stride = index.head_dim,
                           .norm_weight = weights.key_norm,
                           .norm_bias = weights.key_shift,
                           .norm_eps = index.norm_eps,
                           .query = query_,
                           .query_stride = query_rows,
                           .rope_style = index.rope_style,
                           .rotary_dim = attention.latent.rope_dim,
                           .cos = step.cos,
                           .sin = step.sin,
                           .slot_mapping = group.slot_mapping,
                           .keys = cache.index,
                           .num_tokens = inputs.num_tokens,
                           .num_heads = index.num_heads});
  choose_tokens(stream_, {.query = query_,
                          .query_stride = query_rows,
                          .weights = head_weights_,
                          .weights_stride = index.num_heads,
                          .keys = cache.index,
                          .query_start_loc = inputs.query_start_loc,
                          .seq_lens = inputs.seq_lens,
                          .block_table = group.block_table,
                          .max_blocks = group.max_blocks,
                          .num_reqs = inputs.num_reqs,
                          .num_heads = index.num_heads,
                          .top_k = index.top_k,
                          .chosen = chosen_,
                          .workspace = workspace_});
}

void IndexBlock::attend(size_t layer, const PagedAttentionParams& params) {
  SparseAttentionParams sparse{
      .attention = params, .chosen = chosen_, .top_k = spec_.layers[layer].attention.index.top_k};
  sparse.attention.workspace = workspace_;
  sparse_attention(stream_, sparse);
}

}  // namespace quire
