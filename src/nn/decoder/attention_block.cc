#include "nn/decoder/attention_block.h"

#include <algorithm>
#include <array>
#include <utility>

#include "device/gpu_range.h"
#include "kernels/api/attention.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/rows/copy_rows.h"
#include "nn/decoder/decoder_memory.h"

namespace quire {
namespace {

// The weights of norms that store none.
constexpr auto kOnes = [] {
  std::array<float, kMaxAttentionHeadDim> ones{};
  ones.fill(1.0f);
  return ones;
}();

}  // namespace

AttentionBlock::AttentionBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                               const DecoderLimits& limits, BatchLinears& linears,
                               SharedBlocks* shared, Arena& arena)
    : spec_(spec),
      weights_(weights),
      linears_(linears),
      shared_(shared),
      stream_(linears.stream()) {
  const BufferSizes sizes(spec, limits);
  qkv_ = allocate_activations(arena, limits, sizes.qkv);
  heads_ = allocate_activations(arena, limits, sizes.attention);
  for (const int64_t count : sizes.rope) {
    cos_.push_back(arena.allocate<float>(count));
    sin_.push_back(arena.allocate<float>(count));
  }
  rope_scratch_ = arena.allocate<double>(sizes.rope_scratch);
  query_scale_ = arena.allocate<float>(sizes.query_scale);
  position_bias_ = arena.allocate<float>(sizes.position_bias);
  alibi_slopes_ = arena.allocate<float>(sizes.alibi_slopes);
  const std::vector<AttentionCutKind> kinds = cut_kinds(spec);
  const int64_t cut_bytes = Arena::padded(paged_attention_cut_bytes(stream_, limits.max_reqs));
  for (size_t i = 0; i < kinds.size(); ++i) cuts_.push_back(arena.allocate_bytes(cut_bytes));
  for (const LayerSpec& layer : spec.layers) {
    // The entries of layers without attention are never read.
    const auto at = std::lower_bound(kinds.begin(), kinds.end(), cut_kind(layer.attention));
    layer_cut_.push_back(static_cast<size_t>(at - kinds.begin()));
  }
  workspace_bytes_ = attention_workspace_bytes(spec, limits, stream_);
  workspace_ = arena.allocate_bytes(workspace_bytes_);
  if (spec.has_latents()) {
    latents_.emplace(spec, weights, BlockLimits{limits.max_tokens, limits.activation_type}, stream_,
                     arena);
  }
  if (spec.has_indexers()) indexer_.emplace(spec, weights, limits, stream_, arena);
}

void AttentionBlock::bind_cache(std::vector<LayerCache> layers) {
  if (spec_.relative_bias.any()) {
    const size_t num_tables = spec_.relative_bias.per_layer ? spec_.layers.size() : 1;
    for (size_t layer = 0; layer < num_tables; ++layer) {
      expand_relative_bias(spec_.relative_bias, weights_.relative_bias(layer),
                           spec_.layers.front().attention.num_heads, position_bias(layer));
    }
  }
  if (!spec_.alibi_slopes.empty()) {
    place_floats(stream_, {.values = spec_.alibi_slopes.data(),
                           .out = alibi_slopes_,
                           .count = std::ssize(spec_.alibi_slopes)});
  }
  cache_ = std::move(layers);
  find_cuts_of_one_table();
}

void AttentionBlock::find_cuts_of_one_table() {
  cut_has_one_table_.assign(cuts_.size(), true);
  std::vector<int32_t> groups(cuts_.size(), -1);
  for (size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    if (!spec_.layers[layer].attention.any()) continue;
    int32_t& group = groups[layer_cut_[layer]];
    if (group < 0) group = cache_[layer].group;
    if (group != cache_[layer].group) cut_has_one_table_[layer_cut_[layer]] = false;
  }
}

float* AttentionBlock::position_bias(size_t layer) const {
  const RelativeBiasSpec& bias = spec_.relative_bias;
  if (!bias.any()) return nullptr;
  const int64_t size =
      spec_.layers.front().attention.num_heads * position_bias_stride(bias.max_distance);
  return position_bias_ + (bias.per_layer ? static_cast<int64_t>(layer) * size : 0);
}

void AttentionBlock::prepare_positions(const ForwardInputs& inputs) {
  if (spec_.query_scale) {
    query_scales(stream_, {.positions = inputs.positions,
                           .beta = spec_.query_scale->beta,
                           .span = spec_.query_scale->span,
                           .first = spec_.query_scale->first,
                           .out = query_scale_,
                           .num_tokens = inputs.num_tokens});
  }
  for (size_t i = 0; i < spec_.ropes.size(); ++i) {
    rope_tables(stream_, spec_.ropes[i], {inputs.positions, inputs.axis_positions},
                inputs.num_tokens, cos_[i], sin_[i], rope_scratch_);
  }
}

void AttentionBlock::project(const ForwardInputs& inputs, size_t index, ConstActivations x) {
  const AttentionSpec& attention = spec_.layers[index].attention;
  if (attention.latent.any()) {
    project_latents(inputs, index, x);
  } else if (attention.any()) {
    project_heads(inputs, index, x);
  }
}

void AttentionBlock::project_heads(const ForwardInputs& inputs, size_t index, ConstActivations x) {
  const AttentionSpec& attention = spec_.layers[index].attention;
  const LayerWeights& weights = weights_.block(index);
  const LayerCache& cache = cache_[index];
  const KvGroupInputs& group = inputs.groups[static_cast<size_t>(cache.group)];
  const bool has_rope = attention.rope_style != RopeStyle::kNone;
  const auto rope = static_cast<size_t>(attention.rope_index);

  linears_.run(weights.qkv, x, {qkv_}, inputs.num_tokens);
  if (spec_.layers[index].shared.any())
    shared_->update_qkv(index, qkv_, inputs.num_tokens, linears_.workspace());
  if (attention.qkv_clip > 0.0f) clip(attention, inputs.num_tokens);
  KvCacheView kv = cache.view;
  if (!attention.has_own_kv()) {
    kv.num_kv_heads = 0;  // only queries are rotated
  } else if (attention.value_norm) {
    gated_norm(stream_, {.x = qkv_.from(attention.q_rows() + attention.kv_rows()),
                         .x_stride = attention.qkv_rows(),
                         .eps = spec_.norm_eps,
                         .num_tokens = inputs.num_tokens,
                         .size = attention.kv_rows(),
                         .group_size = attention.head_dim});
  }
  qkv_to_cache(stream_, {.qkv = qkv_,
                         .qkv_stride = attention.qkv_rows(),
                         .qk_norm = attention.qk_norm.value_or(QkNorm::kHead),
                         .q_norm_weight = attention.plain_qk_norm ? kOnes.data() : weights.q_norm,
                         .k_norm_weight = attention.plain_qk_norm ? kOnes.data() : weights.k_norm,
                         .q_norm_bias = weights.q_norm_bias,
                         .k_norm_bias = weights.k_norm_bias,
                         .norm_eps = attention.qk_norm_eps,
                         .has_plain_norms = attention.plain_qk_norm,
                         .norm_after_rope = attention.qk_norm_after_rope,
                         .q_scale = attention.scales_queries ? query_scale_ : nullptr,
                         .rope_style = attention.rope_style,
                         .rotary_dim = has_rope ? spec_.ropes[rope].rotary_dim : 0,
                         .cos = has_rope ? cos_[rope] : nullptr,
                         .sin = has_rope ? sin_[rope] : nullptr,
                         .slot_mapping = group.slot_mapping,
                         .kv = kv,
                         .num_tokens = inputs.num_tokens,
                         .num_heads = attention.num_heads});
}

void AttentionBlock::clip(const AttentionSpec& attention, int64_t num_tokens) {
  float* const x = qkv_;
  const int64_t count = num_tokens * attention.qkv_rows();
  for (int64_t i = 0; i < count; ++i)
    x[i] = std::clamp(x[i], -attention.qkv_clip, attention.qkv_clip);
}

void AttentionBlock::project_latents(const ForwardInputs& inputs, size_t index,
                                     ConstActivations x) {
  const AttentionSpec& attention = spec_.layers[index].attention;
  const LayerCache& cache = cache_[index];
  const auto rope = static_cast<size_t>(attention.rope_index);
  const bool has_rope = attention.rope_style != RopeStyle::kNone;
  latents_->project(index, x,
                    {.cos = has_rope ? cos_[rope] : nullptr,
                     .sin = has_rope ? sin_[rope] : nullptr,
                     .slot_mapping = inputs.groups[static_cast<size_t>(cache.group)].slot_mapping,
                     .kv = cache.view,
                     .num_tokens = inputs.num_tokens},
                    linears_.workspace());
  if (!attention.index.any()) return;
  indexer_->choose(index, inputs, cache,
                   {.x = x,
                    .query_latent = latents_->query_latent(),
                    .query_latent_stride = attention.latent.down_rows(attention.num_heads),
                    .cos = has_rope ? cos_[rope] : nullptr,
                    .sin = has_rope ? sin_[rope] : nullptr},
                   linears_.workspace());
}

void AttentionBlock::attend(const ForwardInputs& inputs, size_t index) {
  const GpuRange range(stream_, "attention", index);
  const AttentionSpec& attention = spec_.layers[index].attention;
  const LayerCache& cache = cache_[index];
  const KvGroupInputs& group = inputs.groups[static_cast<size_t>(cache.group)];
  const bool latent = attention.latent.any();
  const bool has_windows = group.num_windows > 0;
  const PagedAttentionParams params = {
      .query = latent ? latents_->queries() : ConstActivations(qkv_),
      .query_stride = latent ? attention.q_rows() : attention.qkv_rows(),
      .kv = cache.view,
      .query_start_loc = has_windows ? group.window_start_loc : inputs.query_start_loc,
      .seq_lens = has_windows ? group.window_lens : inputs.seq_lens,
      .block_table = group.block_table,
      .max_blocks = group.max_blocks,
      .num_reqs = has_windows ? group.num_windows : inputs.num_reqs,
      .num_heads = attention.num_heads,
      .scale = attention.scale,
      .sliding_window = attention.sliding_window,
      .window_is_chunk = attention.window_is_chunk,
      .causal = attention.causal,
      .seen_ends = attention.sees_ends ? inputs.seen_ends : nullptr,
      .soft_cap = attention.soft_cap,
      .alibi_slopes = spec_.alibi_slopes.empty() ? nullptr : alibi_slopes_,
      .position_bias = position_bias(index),
      .position_bias_reach = spec_.relative_bias.max_distance,
      .sinks = weights_.layer(index).sinks,
      .out = latent ? latents_->sums() : heads_,
      .workspace = workspace_,
      .workspace_bytes = workspace_bytes_,
      .batch_cut = cuts_[layer_cut_[index]],
      .batch_is_cut = cut_done_[layer_cut_[index]],
      .cut_has_one_table = cut_has_one_table_[layer_cut_[index]],
      .max_query_len = inputs.max_query_len,
      .total_len = has_windows ? 0 : inputs.total_len};
  attention.index.any() ? indexer_->attend(index, params) : paged_attention(stream_, params);
  cut_done_[layer_cut_[index]] = true;
  if (latent) latents_->expand_values(index, heads_, inputs.num_tokens);
  gate_heads(attention, inputs.num_tokens);
  if (!attention.has_output_norm) return;
  gated_norm(stream_, {.x = heads_,
                       .x_stride = attention.output_size(),
                       .weight = weights_.block(index).heads_norm,
                       .eps = spec_.norm_eps,
                       .num_tokens = inputs.num_tokens,
                       .size = attention.output_size(),
                       .group_size = attention.output_size()});
}

void AttentionBlock::gate_heads(const AttentionSpec& attention, int64_t num_tokens) {
  if (!attention.has_output_gate && attention.output_scale == 1.0f) return;
  gated_norm(stream_, {.x = heads_,
                       .x_stride = attention.q_rows(),
                       .act = attention.has_output_gate ? Gate::kSigmoid : Gate::kNone,
                       .gate = qkv_.from(attention.qkv_rows() - attention.q_rows()),
                       .gate_stride = attention.qkv_rows(),
                       .normalizes = false,
                       .scale = attention.output_scale,
                       .num_tokens = num_tokens,
                       .size = attention.q_rows(),
                       .group_size = attention.q_rows()});
}

}  // namespace quire
