#include "nn/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/attention.h"
#include "kernels/api/embedding.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/linear.h"
#include "kernels/api/norm.h"

namespace quire {
namespace {

// The weights of norms that have none.
constexpr auto kOnes = [] {
  std::array<float, kMaxAttentionHeadDim> ones{};
  ones.fill(1.0f);
  return ones;
}();

// Of the residual stream [T, E] that comes to a piece.
void copy_taps(const ForwardInputs& inputs, size_t piece, const float* hidden, int64_t width) {
  for (const HiddenTap& tap : inputs.taps) {
    if (tap.layer != static_cast<int32_t>(piece)) continue;
    for (int64_t t = 0; t < inputs.num_tokens; ++t)
      std::copy_n(hidden + t * width, width, tap.out + t * tap.stride);
  }
}

}  // namespace

Decoder::Decoder(const DecoderSpec& spec, const DecoderWeights& weights,
                 const DecoderLimits& limits, Stream& stream, Arena& arena, RankExchange* ranks)
    : spec_(spec), weights_(weights), limits_(limits), stream_(stream), ranks_(ranks) {
  const BufferSizes sizes(spec, limits);
  const auto activations = [&](int64_t count) {
    return Activations(arena.allocate_bytes(count * sizes.element_bytes), limits.activation_type);
  };
  hidden_ = arena.allocate<float>(sizes.hidden);
  normed_ = activations(sizes.normed);
  block_out_ = activations(sizes.block_out);
  qkv_ = activations(sizes.qkv);
  attention_ = activations(sizes.attention);
  gate_up_ = activations(sizes.gate_up);
  ffn_ = activations(sizes.ffn);
  for (const int64_t count : sizes.rope) {
    cos_.push_back(arena.allocate<float>(count));
    sin_.push_back(arena.allocate<float>(count));
  }
  rope_scratch_ = arena.allocate<double>(sizes.rope_scratch);
  query_scale_ = arena.allocate<float>(sizes.query_scale);
  position_bias_ = arena.allocate<float>(sizes.position_bias);
  const std::vector<AttentionCutKind> kinds = cut_kinds(spec);
  const int64_t cut_bytes = Arena::padded(paged_attention_cut_bytes(stream, limits.max_reqs));
  for (size_t i = 0; i < kinds.size(); ++i) cuts_.push_back(arena.allocate_bytes(cut_bytes));
  for (const LayerSpec& layer : spec.layers) {
    // Of layers without attention nobody asks.
    const auto at = std::lower_bound(kinds.begin(), kinds.end(), cut_kind(layer.attention));
    layer_cut_.push_back(static_cast<size_t>(at - kinds.begin()));
  }
  attention_workspace_bytes_ = attention_workspace_bytes(spec, limits, stream);
  linear_workspace_ =
      arena.allocate_bytes(decoder_memory(spec, weights, limits, stream).linear_workspace);
  attention_workspace_ = arena.allocate_bytes(attention_workspace_bytes_);
  if (spec.has_experts()) {
    experts_.emplace(spec, weights, std::min(limits.max_tokens, limits.mlp_tokens), stream, arena,
                     ranks);
  }
  if (limits.lora.max_ranks > 0) lora_.emplace(limits.lora, limits.max_tokens, stream, arena);
  if (spec.has_states()) {
    states_.emplace(spec, weights, limits.max_tokens, stream, arena, lora_ ? &*lora_ : nullptr);
  }
  if (spec.layer_inputs.any())
    layer_inputs_.emplace(spec, weights, limits.max_tokens, stream, arena);
  const BatchSizes batch = batch_sizes(spec, limits.max_tokens);
  if (spec.has_shared_blocks()) shared_.emplace(weights.shared(), batch, stream, arena);
  if (spec.streams.any()) streams_.emplace(spec.streams, weights.streams(), batch, stream, arena);
  if (spec.draft_input.any()) {
    draft_input_.emplace(spec.draft_input, weights.draft_input(), batch, stream, arena);
  }
  if (spec.has_latents()) latents_.emplace(spec, weights, limits.max_tokens, stream, arena);
}

void Decoder::bind_cache(std::vector<LayerCache> layers, std::vector<StateView> states) {
  QUIRE_CHECK(layers.size() == spec_.layers.size(), "{} caches for {} layers", layers.size(),
              spec_.layers.size());
  QUIRE_CHECK(!spec_.has_states() || states.size() == layers.size(), "{} states for {} layers",
              states.size(), layers.size());
  if (spec_.relative_bias.any()) {
    const size_t num_tables = spec_.relative_bias.per_layer ? spec_.layers.size() : 1;
    for (size_t layer = 0; layer < num_tables; ++layer) {
      expand_relative_bias(spec_.relative_bias, weights_.relative_bias(layer),
                           spec_.layers.front().attention.num_heads, position_bias(layer));
    }
  }
  cache_ = std::move(layers);
  state_views_ = std::move(states);
}

float* Decoder::position_bias(size_t layer) const {
  const RelativeBiasSpec& bias = spec_.relative_bias;
  if (!bias.any()) return nullptr;
  const int64_t size =
      spec_.layers.front().attention.num_heads * position_bias_stride(bias.max_distance);
  return position_bias_ + (bias.per_layer ? static_cast<int64_t>(layer) * size : 0);
}

void Decoder::forward(const ForwardInputs& inputs) {
  for (size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    run_piece(inputs, layer);
    mix(inputs, layer);
  }
  run_piece(inputs, spec_.layers.size());
}

void Decoder::run_piece(const ForwardInputs& inputs, size_t piece) {
  QUIRE_CHECK(!cache_.empty(), "forward() before bind_cache()");
  QUIRE_CHECK(inputs.num_tokens >= 1 && inputs.num_tokens <= limits_.max_tokens,
              "{} tokens, at most {}", inputs.num_tokens, limits_.max_tokens);
  if (piece == 0) {
    QUIRE_CHECK(lora_ || inputs.adapters.empty(), "rows with adapters, which were not planned");
    if (lora_) lora_->begin(inputs.adapters, inputs.num_tokens);
    embed(inputs);
    rope_step(inputs);
  } else {
    const GpuRange range(stream_, "layer end", piece - 1);
    output_block(piece - 1, inputs.num_tokens);
    if (inputs.cross != nullptr)
      inputs.cross->run(piece - 1, inputs.cross_segments, hidden_, inputs.num_tokens);
    ffn_block(piece - 1, inputs.num_tokens);
    end_layer(inputs, piece - 1);
  }
  if (streams_ && piece == spec_.layers.size())
    streams_->merge(hidden_, inputs.num_tokens, linear_workspace_);
  copy_taps(inputs, piece, hidden_, spec_.hidden_size);
  if (piece < spec_.layers.size()) {
    const GpuRange range(stream_, "layer begin", piece);
    mixer_input(inputs, piece);
  }
}

void Decoder::embed(const ForwardInputs& inputs) {
  // A stage behind the first goes on from hidden_; without a vocabulary all rows are given.
  const TableWeight& table = weights_.token_embedding();
  if (spec_.vocab_size > 0 && table.data == nullptr && !table.packed) return;
  const GpuRange range(stream_, "embedding");
  embed_tokens(inputs);
  for (const GivenRows& given : inputs.given_rows) {
    for (int64_t row = 0; row < given.count; ++row) {
      std::copy_n(given.rows + row * std::max(given.stride, spec_.hidden_size), spec_.hidden_size,
                  hidden_ + (given.first + row) * spec_.hidden_size);
    }
  }
  if (spec_.block.embedding_norm)
    run_norm(weights_.embedding_norm(), hidden_, hidden_, inputs.num_tokens);
  if (draft_input_) {
    draft_input_->join(inputs.draft_rows, inputs.positions, hidden_, inputs.num_tokens,
                       linear_workspace_);
  }
  if (layer_inputs_)
    layer_inputs_->prepare(inputs.input_ids, hidden_, inputs.num_tokens, linear_workspace_);
  if (streams_) streams_->spread(hidden_, inputs.num_tokens, linear_workspace_);
  if (shared_) shared_->begin(hidden_, inputs.num_tokens);
}

void Decoder::embed_tokens(const ForwardInputs& inputs) {
  const TableWeight& table = weights_.token_embedding();
  if (spec_.vocab_size == 0) return;  // all rows are given
  embedding(stream_, {.token_ids = inputs.input_ids,
                      .table = table.data,
                      .packed_table = table.packed ? &*table.packed : nullptr,
                      .positions = inputs.positions,
                      .position_table = position_row(spec_.first_position_row),
                      .token_types = inputs.token_types,
                      .type_table = weights_.token_type_embedding().data,
                      .table_dtype = table.dtype,
                      .scale = spec_.embedding_scale,
                      .out = hidden_,
                      .num_tokens = inputs.num_tokens,
                      .hidden_size = spec_.hidden_size});
}

const void* Decoder::position_row(int64_t row) const {
  const TableWeight& table = weights_.position_embedding();
  if (table.data == nullptr) return nullptr;
  return static_cast<const std::byte*>(table.data) +
         row * spec_.hidden_size * size_bytes(table.dtype);
}

void Decoder::rope_step(const ForwardInputs& inputs) {
  if (spec_.query_scale) {
    query_scales(*spec_.query_scale, {inputs.positions, static_cast<size_t>(inputs.num_tokens)},
                 query_scale_);
  }
  for (size_t i = 0; i < spec_.ropes.size(); ++i) {
    rope_tables(stream_, spec_.ropes[i], {inputs.positions, inputs.axis_positions},
                inputs.num_tokens, cos_[i], sin_[i], rope_scratch_);
  }
}

void Decoder::mixer_input(const ForwardInputs& inputs, size_t index) {
  const LayerSpec& layer = spec_.layers[index];
  if (!layer.has_mixer()) return;
  if (streams_) streams_->predict(index, hidden_, inputs.num_tokens, linear_workspace_);
  ConstActivations x = hidden_;
  if (layer.shared.any()) {
    x = shared_->pairs(index, hidden_, inputs.num_tokens);
  } else if (layer.attention.reads_pairs) {
    x = draft_input_->pairs();
  } else if (spec_.block.input_norms && layer.has_input_norm) {
    run_norm(weights_.layer(index).input_norm, hidden_, normed_, inputs.num_tokens);
    x = normed_;
  }
  if (streams_) streams_->begin_attention(index, x, inputs.num_tokens, linear_workspace_);
  if (layer.attention.latent.any()) {
    latent_block(inputs, index, x);
  } else if (layer.attention.any()) {
    qkv_block(inputs, index, x);
  }
  if (layer.state.any() && !layer.shared.any())
    states_->project(index, x, inputs.num_tokens, linear_workspace_);
}

void Decoder::qkv_block(const ForwardInputs& inputs, size_t index, ConstActivations x) {
  const AttentionSpec& attention = spec_.layers[index].attention;
  const LayerWeights& weights = weights_.block(index);
  const LayerCache& cache = cache_[index];
  const KvGroupInputs& group = inputs.groups[static_cast<size_t>(cache.group)];
  const bool has_rope = attention.rope_style != RopeStyle::kNone;
  const auto rope = static_cast<size_t>(attention.rope_index);

  run_linear(weights.qkv, x, qkv_, inputs.num_tokens, false);
  if (spec_.layers[index].shared.any())
    shared_->update_qkv(index, qkv_, inputs.num_tokens, linear_workspace_);
  KvCacheView kv = cache.view;
  if (!attention.has_own_kv()) {
    kv.num_kv_heads = 0;  // there are queries alone
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
                         .norm_eps = attention.qk_norm_eps,
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

void Decoder::latent_block(const ForwardInputs& inputs, size_t index, ConstActivations x) {
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
                    linear_workspace_);
}

void Decoder::mix(const ForwardInputs& inputs, size_t index) {
  const LayerSpec& layer = spec_.layers[index];
  if (index == 0) cut_done_.assign(cuts_.size(), false);
  if (layer.attention.any()) attend(inputs, index);
  if (layer.shared.any()) shared_block(index, inputs.num_tokens);
  if (layer.state.any()) {
    states_->mix(index, inputs.states, state_views_[index], inputs.num_tokens, linear_workspace_);
  }
}

void Decoder::attend(const ForwardInputs& inputs, size_t index) {
  const GpuRange range(stream_, "attention", index);
  const AttentionSpec& attention = spec_.layers[index].attention;
  const LayerCache& cache = cache_[index];
  const KvGroupInputs& group = inputs.groups[static_cast<size_t>(cache.group)];
  const bool latent = attention.latent.any();
  const bool has_windows = group.num_windows > 0;
  paged_attention(stream_,
                  {.query = latent ? ConstActivations(latents_->queries()) : ConstActivations(qkv_),
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
                   .seen_ends = inputs.seen_ends,
                   .soft_cap = attention.soft_cap,
                   .alibi_slopes = spec_.alibi_slopes.empty() ? nullptr : spec_.alibi_slopes.data(),
                   .position_bias = position_bias(index),
                   .position_bias_reach = spec_.relative_bias.max_distance,
                   .sinks = weights_.layer(index).sinks,
                   .out = latent ? Activations(latents_->sums()) : attention_,
                   .workspace = attention_workspace_,
                   .workspace_bytes = attention_workspace_bytes_,
                   .batch_cut = cuts_[layer_cut_[index]],
                   .batch_is_cut = cut_done_[layer_cut_[index]],
                   .max_query_len = inputs.max_query_len});
  cut_done_[layer_cut_[index]] = true;
  if (latent) latents_->expand_values(index, attention_, inputs.num_tokens);
  gate_heads(attention, inputs.num_tokens);
}

void Decoder::gate_heads(const AttentionSpec& attention, int64_t num_tokens) {
  if (!attention.has_output_gate && attention.output_scale == 1.0f) return;
  gated_norm(stream_, {.x = attention_,
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

void Decoder::output_block(size_t index, int64_t num_tokens) {
  const LayerWeights& weights = weights_.layer(index);
  const LayerSpec& layer = spec_.layers[index];
  if (layer.state.any()) states_->add_output(index, hidden_, num_tokens, linear_workspace_);
  if (!layer.attention.any() || layer.shared.any()) return;
  // The MLP is to read what attention has read.
  if (spec_.block.residual == ResidualStyle::kParallel)
    run_norm(weights.pre_mlp_norm, hidden_, normed_, num_tokens);
  ConstActivations heads = attention_;
  if (ranks_ != nullptr && ranks_->cuts_heads(index))
    heads = ranks_->gather_heads(index, attention_, num_tokens);
  if (spec_.block.changes_outputs()) {
    run_output(weights.o, heads, block_out_, num_tokens, false);
    add_changed(weights.post_attention_norm, hidden_, num_tokens);
  } else {
    run_output(weights.o, heads, hidden_, num_tokens, true);
  }
  if (spec_.block.residual == ResidualStyle::kNormOfSum)
    run_norm(weights.post_attention_norm, hidden_, hidden_, num_tokens);
  if (streams_) streams_->end_attention(hidden_, num_tokens);
}

void Decoder::run_norm(const NormWeights& norm, ConstActivations x, Activations out,
                       int64_t num_tokens, const int32_t* rows) {
  const GpuRange range(stream_, "norm");
  if (spec_.block.norm == NormKind::kLayer) {
    layer_norm(stream_, {.x = x,
                         .weight = norm.weight,
                         .bias = norm.bias,
                         .out = out,
                         .rows = rows,
                         .eps = spec_.norm_eps,
                         .num_tokens = num_tokens,
                         .hidden_size = spec_.hidden_size});
    return;
  }
  rms_norm(stream_, {.x = x,
                     .weight = norm.weight,
                     .out = out,
                     .add_to = nullptr,
                     .rows = rows,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = spec_.hidden_size});
}

void Decoder::add_changed(const NormWeights& norm, float* add_to, int64_t num_tokens) {
  if (spec_.block.output_scales) {
    const float* x = block_out_;
    for (int64_t token = 0; token < num_tokens; ++token) {
      for (int64_t i = 0; i < spec_.hidden_size; ++i) *add_to++ += *x++ * norm.weight[i];
    }
    return;
  }
  rms_norm(stream_, {.x = block_out_,
                     .weight = norm.weight,
                     .out = nullptr,
                     .add_to = add_to,
                     .rows = nullptr,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = spec_.hidden_size});
}

void Decoder::run_linear(const LinearWeights& weights, ConstActivations x, Activations y,
                         int64_t num_tokens, bool accumulate) {
  run_linear(weights, x, {y, weights.weight.n}, num_tokens, accumulate);
}

void Decoder::run_output(const LinearWeights& weights, ConstActivations x, Activations out,
                         int64_t num_tokens, bool accumulate) {
  if (ranks_ == nullptr) return run_linear(weights, x, out, num_tokens, accumulate);
  const RowRange own = ranks_->share().outputs(spec_.hidden_size);
  run_linear(weights, x, {out.from(own.begin), spec_.hidden_size}, num_tokens, accumulate);
  ranks_->gather_outputs(out, num_tokens);
}

void Decoder::run_linear(const LinearWeights& weights, ConstActivations x, const Columns& y,
                         int64_t num_tokens, bool accumulate) {
  const GpuRange range(stream_, "linear");
  const MatrixWeight& matrix = weights.weight;
  int64_t first = 0;  // of the part, among the outputs
  for (const PackedWeight& part : matrix.parts) {
    linear(stream_, {.x = x,
                     .x_stride = matrix.k,
                     .weight = &part,
                     .bias = weights.bias == nullptr ? nullptr : weights.bias + first,
                     .y = y.data.from(first),
                     .y_stride = y.stride,
                     .accumulate = accumulate,
                     .num_rows = num_tokens,
                     .workspace = linear_workspace_});
    first += part.spec.n;
  }
  if (lora_) lora_->apply({matrix, x, matrix.k, y.data, y.stride, linear_workspace_});
}

}  // namespace quire
