#include "nn/decoder/decoder.h"

#include <algorithm>
#include <utility>

#include "device/gpu_range.h"
#include "kernels/api/embedding.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/norm.h"
#include "kernels/api/rows/copy_rows.h"
#include "nn/decoder/decoder_memory.h"
#include "nn/products/block_norm.h"
#include "nn/products/gated_rows.h"
#include "nn/products/product_inputs.h"

namespace quire {
namespace {

// Copies the residual stream [T, E] at the start of a piece to the taps.
void copy_taps(Stream& stream, const ForwardInputs& inputs, size_t piece, const float* hidden,
               int64_t width) {
  for (const HiddenTap& tap : inputs.taps) {
    if (tap.layer != static_cast<int32_t>(piece)) continue;
    copy_rows(stream, {.x = hidden,
                       .x_stride = width,
                       .out = tap.out,
                       .out_stride = tap.stride,
                       .num_tokens = inputs.num_tokens,
                       .size = width});
  }
}

}  // namespace

Decoder::Decoder(const DecoderSpec& spec, const DecoderWeights& weights,
                 const DecoderLimits& limits, Stream& stream, Arena& arena, RankExchange* ranks)
    : spec_(spec), weights_(weights), limits_(limits), stream_(stream), ranks_(ranks) {
  const BufferSizes sizes(spec, limits);
  hidden_ = arena.allocate<float>(sizes.hidden);
  normed_ = allocate_activations(arena, limits, sizes.normed);
  block_out_ = allocate_activations(arena, limits, sizes.block_out);
  linear_workspace_ =
      arena.allocate_bytes(decoder_memory(spec, weights, limits, stream).linear_workspace);
  if (limits.lora.max_ranks > 0) lora_.emplace(limits.lora, limits.max_tokens, stream, arena);
  LoraBatch* const lora = lora_ ? &*lora_ : nullptr;
  float* const clamped = arena.allocate<float>(sizes.clamped);
  linears_.emplace(stream, BatchLinears::Shared{linear_workspace_, clamped, lora, ranks});
  const BatchSizes batch = batch_sizes(spec, limits);
  if (spec.has_shared_blocks()) shared_.emplace(weights.shared(), batch, stream, arena);
  SharedBlocks* const shared = shared_ ? &*shared_ : nullptr;
  attention_.emplace(spec, weights, limits, *linears_, shared, arena);
  ffn_.emplace(spec, weights, limits, *linears_, shared, arena);
  head_.emplace(spec, weights, limits, *linears_, DecoderHead::Rows{hidden_, normed_});
  const BlockLimits block_limits{limits.max_tokens, limits.activation_type};
  if (spec.has_states()) states_.emplace(spec, weights, block_limits, stream, arena, lora);
  if (spec.layer_inputs.any()) layer_inputs_.emplace(spec, weights, block_limits, stream, arena);
  if (spec.streams.any()) streams_.emplace(spec.streams, weights.streams(), batch, stream, arena);
  if (spec.draft_input.any())
    draft_input_.emplace(spec.draft_input, weights.draft_input(), batch, stream, arena);
}

void Decoder::bind_cache(std::vector<LayerCache> layers, std::vector<StateView> states) {
  QUIRE_CHECK(layers.size() == spec_.layers.size(), "{} caches for {} layers", layers.size(),
              spec_.layers.size());
  QUIRE_CHECK(!spec_.has_states() || states.size() == layers.size(), "{} states for {} layers",
              states.size(), layers.size());
  attention_->bind_cache(std::move(layers));
  state_views_ = std::move(states);
}

void Decoder::forward(const ForwardInputs& inputs) {
  for (size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    run_piece(inputs, layer);
    mix(inputs, layer);
  }
  run_piece(inputs, spec_.layers.size());
}

void Decoder::run_piece(const ForwardInputs& inputs, size_t piece) {
  QUIRE_CHECK(attention_->is_bound(), "forward() before bind_cache()");
  QUIRE_CHECK(inputs.num_tokens >= 1 && inputs.num_tokens <= limits_.max_tokens,
              "{} tokens, at most {}", inputs.num_tokens, limits_.max_tokens);
  if (piece == 0) {
    take_adapters(inputs);
    if (ranks_ != nullptr) ranks_->begin_pass();
    embed(inputs);
    attention_->prepare_positions(inputs);
  } else {
    const GpuRange range(stream_, "layer end", piece - 1);
    output_block(piece - 1, inputs.num_tokens);
    if (inputs.cross != nullptr && spec_.layers[piece - 1].reads_source)
      inputs.cross->run(piece - 1, inputs.cross_segments, hidden_, inputs.num_tokens);
    ffn_block(inputs, piece - 1);
    end_layer(inputs, piece - 1);
  }
  if (streams_ && piece == spec_.layers.size())
    streams_->merge(hidden_, inputs.num_tokens, linear_workspace_);
  copy_taps(stream_, inputs, piece, hidden_, spec_.hidden_size);
  if (piece < spec_.layers.size()) {
    const GpuRange range(stream_, "layer begin", piece);
    mixer_input(inputs, piece);
  }
}

void Decoder::take_adapters(const ForwardInputs& inputs) {
  const bool has_adapters = !inputs.adapters.empty() || inputs.lora_slots.table != nullptr;
  QUIRE_CHECK(lora_ || !has_adapters, "rows with adapters, which were not planned");
  if (lora_) lora_->begin(inputs.adapters, inputs.lora_slots, inputs.num_tokens);
}

void Decoder::embed(const ForwardInputs& inputs) {
  // A later stage of a pipeline starts from hidden_. Without a vocabulary, all rows are given.
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
    norm(weights_.embedding_norm(), hidden_, hidden_, inputs.num_tokens);
  if (draft_input_) {
    draft_input_->join(inputs.draft_rows, inputs.positions, hidden_, inputs.num_tokens,
                       linear_workspace_);
  }
  if (layer_inputs_) layer_inputs_->prepare(inputs, hidden_, linear_workspace_);
  if (streams_) streams_->spread(hidden_, inputs.num_tokens, linear_workspace_);
  if (shared_) shared_->begin(hidden_, inputs.num_tokens);
}

void Decoder::embed_tokens(const ForwardInputs& inputs) {
  const TableWeight& table = weights_.token_embedding();
  if (spec_.vocab_size == 0) return;  // all rows are given
  const EmbeddingParams params{.token_ids = inputs.input_ids,
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
                               .hidden_size = spec_.hidden_size};
  embedding(stream_, params);
  if (lora_) lora_->apply_to_embeddings(params);
}

const void* Decoder::position_row(int64_t row) const {
  const TableWeight& table = weights_.position_embedding();
  if (table.data == nullptr) return nullptr;
  return static_cast<const std::byte*>(table.data) +
         row * spec_.hidden_size * size_bytes(table.dtype);
}

void Decoder::mixer_input(const ForwardInputs& inputs, size_t index) {
  const LayerSpec& layer = spec_.layers[index];
  if (!layer.has_mixer()) return;
  if (streams_) streams_->predict(index, hidden_, inputs.num_tokens, linear_workspace_);
  ConstActivations x;
  if (layer.shared.any()) {
    x = shared_->pairs(index, hidden_, inputs.num_tokens);
  } else if (layer.attention.reads_pairs) {
    x = draft_input_->pairs();
  } else if (spec_.block.input_norms && layer.has_input_norm) {
    norm(weights_.layer(index).input_norm, hidden_, normed_, inputs.num_tokens);
    x = normed_;
  } else {
    x = plain_input(hidden_, inputs.num_tokens);
  }
  if (streams_) streams_->begin_attention(index, x, inputs.num_tokens, linear_workspace_);
  attention_->project(inputs, index, x);
  if (layer.state.any() && !layer.shared.any())
    states_->project(index, x, inputs.num_tokens, linear_workspace_);
}

void Decoder::mix(const ForwardInputs& inputs, size_t index) {
  const LayerSpec& layer = spec_.layers[index];
  if (index == 0) attention_->begin_batch();
  if (layer.attention.any()) attention_->attend(inputs, index);
  if (layer.shared.any()) shared_block(index, inputs.num_tokens);
  if (layer.state.any()) {
    states_->mix(index, inputs.states, state_views_[index], inputs.num_tokens, linear_workspace_);
  }
}

void Decoder::output_block(size_t index, int64_t num_tokens) {
  const LayerWeights& weights = weights_.layer(index);
  const LayerSpec& layer = spec_.layers[index];
  if (layer.state.any()) states_->add_output(index, hidden_, num_tokens, linear_workspace_);
  if (!layer.attention.any() || layer.shared.any()) return;
  // The MLP must read the same rows as the attention.
  if (spec_.block.residual == ResidualStyle::kParallel)
    norm(weights.pre_mlp_norm, hidden_, normed_, num_tokens);
  ConstActivations heads = attention_->heads();
  if (ranks_ != nullptr && ranks_->cuts_heads(index))
    heads = ranks_->gather_heads(index, heads, num_tokens);
  if (spec_.block.changes_outputs()) {
    linears_->run_output(weights.o, heads, block_out_, num_tokens, false);
    add_changed(weights.post_attention_norm, hidden_, num_tokens);
  } else {
    linears_->run_output(weights.o, heads, hidden_, num_tokens, true);
  }
  if (spec_.block.residual == ResidualStyle::kNormOfSum)
    norm(weights.post_attention_norm, hidden_, hidden_, num_tokens);
  if (streams_) streams_->end_attention(hidden_, num_tokens);
}

void Decoder::norm(const NormWeights& weights, ConstActivations x, Activations out,
                   int64_t num_tokens) {
  run_block_norm(stream_, spec_, {.weights = weights, .x = x, .out = out, .num_tokens = num_tokens},
                 linears_->lora());
}

void Decoder::add_changed(const NormWeights& norm, float* add_to, int64_t num_tokens) {
  if (!lora_) return add_changed_rows(norm, add_to, 0, num_tokens);
  lora_->for_each_norm(norm, num_tokens,
                       [&](int64_t first, int64_t count, const NormWeights& weights) {
                         add_changed_rows(weights, add_to, first, count);
                       });
}

void Decoder::add_changed_rows(const NormWeights& norm, float* to, int64_t first,
                               int64_t num_tokens) {
  float* add_to = to + first * spec_.hidden_size;
  const Activations rows = block_out_.from(first * spec_.hidden_size);
  if (spec_.block.output_gates) {
    add_gated_rows(
        {.rows = rows, .gate = *norm.weight, .num_rows = num_tokens, .width = spec_.hidden_size},
        add_to);
    return;
  }
  if (spec_.block.output_scales) {
    const float* x = rows;
    for (int64_t token = 0; token < num_tokens; ++token) {
      for (int64_t i = 0; i < spec_.hidden_size; ++i) *add_to++ += *x++ * norm.weight[i];
    }
    return;
  }
  rms_norm(stream_, {.x = rows,
                     .weight = norm.weight,
                     .out = nullptr,
                     .add_to = add_to,
                     .rows = nullptr,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = spec_.hidden_size});
}

void Decoder::ffn_block(const ForwardInputs& inputs, size_t index) {
  const LayerWeights& weights = weights_.layer(index);
  const int64_t num_tokens = inputs.num_tokens;
  if (!spec_.layers[index].ffn.any() || spec_.layers[index].shared.any()) return;
  const bool is_gated = spec_.cross.gated && spec_.layers[index].reads_source;
  if (is_gated && !inputs.cross_segments.any_shown) return;
  for (int64_t begin = 0; begin < num_tokens; begin += limits_.mlp_tokens) {
    const int64_t count = std::min(limits_.mlp_tokens, num_tokens - begin);
    linears_->select(begin, count);
    float* hidden = hidden_ + begin * spec_.hidden_size;
    const ConstActivations x = mlp_input(weights, hidden, begin, count);
    if (is_gated) {
      ffn_->run(index, x, block_out_, count, false);
      add_gated_rows({.rows = block_out_,
                      .gate = *weights.cross.mlp_gate,
                      .wanted = inputs.cross_segments.shown + begin,
                      .num_rows = count,
                      .width = spec_.hidden_size},
                     hidden);
    } else if (spec_.block.changes_outputs() || spec_.layers[index].ffn.has_output_norm) {
      ffn_->run(index, x, block_out_, count, false);
      if (spec_.layers[index].ffn.experts.own_norms)
        ffn_->add_experts_beside(index, hidden, block_out_, count);
      add_changed(weights.post_mlp_norm, hidden, count);
    } else {
      ffn_->run(index, x, hidden, count, true);
    }
    if (spec_.block.residual == ResidualStyle::kNormOfSum)
      norm(weights.post_mlp_norm, hidden, hidden, count);
  }
  linears_->select(0, num_tokens);
}

void Decoder::shared_block(size_t index, int64_t num_tokens) {
  const LayerWeights& weights = weights_.block(index);
  float* const inside = shared_->inside();
  linears_->run(weights.o, attention_->heads(), {inside}, num_tokens);
  for (int64_t begin = 0; begin < num_tokens; begin += limits_.mlp_tokens) {
    const int64_t count = std::min(limits_.mlp_tokens, num_tokens - begin);
    linears_->select(begin, count);
    float* const rows = inside + begin * spec_.hidden_size;
    norm(weights.pre_mlp_norm, rows, normed_, count);
    ffn_->run(index, normed_, rows, count, false);
  }
  linears_->select(0, num_tokens);
  const float* const mixed = shared_->end(index, hidden_, num_tokens, linear_workspace_);
  norm(weights_.layer(index).input_norm, mixed, normed_, num_tokens);
  states_->project(index, normed_, num_tokens, linear_workspace_);
}

ConstActivations Decoder::plain_input(const float* hidden, int64_t num_tokens) {
  return product_inputs(stream_, {hidden, spec_.hidden_size}, normed_, num_tokens,
                        spec_.hidden_size)
      .x;
}

ConstActivations Decoder::mlp_input(const LayerWeights& weights, const float* hidden, int64_t begin,
                                    int64_t count) {
  if (spec_.block.residual == ResidualStyle::kNormOfSum) return plain_input(hidden, count);
  if (spec_.block.residual != ResidualStyle::kSequential)
    return normed_.from(begin * spec_.hidden_size);
  if (!spec_.block.input_norms) return plain_input(hidden, count);
  norm(weights.pre_mlp_norm, hidden, normed_, count);
  return normed_;
}

void Decoder::end_layer(const ForwardInputs& inputs, size_t index) {
  const int64_t num_tokens = inputs.num_tokens;
  for (const GivenRows& given : inputs.given_rows) {
    if (static_cast<int64_t>(index) >= given.num_added) continue;
    for (int64_t row = 0; row < given.count; ++row) {
      const float* const from =
          given.rows + row * given.stride + (static_cast<int64_t>(index) + 1) * spec_.hidden_size;
      float* const to = hidden_ + (given.first + row) * spec_.hidden_size;
      for (int64_t i = 0; i < spec_.hidden_size; ++i) to[i] += from[i];
    }
  }
  if (streams_) {
    streams_->correct(index, hidden_, num_tokens, linear_workspace_);
    if (layer_inputs_)
      streams_->add(layer_inputs_->make(index, hidden_, num_tokens, linear_workspace_), num_tokens);
  } else if (layer_inputs_) {
    layer_inputs_->add(index, hidden_, num_tokens, linear_workspace_);
  }
  if (!spec_.layer_scale || !spec_.layers[index].any()) return;
  gated_norm(stream_, {.x = hidden_,
                       .x_stride = spec_.hidden_size,
                       .normalizes = false,
                       .scale_factor = weights_.layer(index).scale,
                       .num_tokens = num_tokens,
                       .size = spec_.hidden_size,
                       .group_size = spec_.hidden_size});
}

}  // namespace quire
