#include "nn/decoder_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "nn/blocks/linear_product.h"

namespace quire {
namespace {

std::array<const LinearWeights*, 5> state_matrices(const StateWeights& state) {
  return {&state.in, &state.x, &state.step, &state.gate, &state.out};
}

// Of residual streams and of blocks that layers share.
std::vector<const LinearWeights*> matrices_beside(const StreamWeights& streams,
                                                  const SharedWeights& shared) {
  std::vector<const LinearWeights*> matrices;
  for (const LinearWeights& linear : streams.in) matrices.push_back(&linear);
  for (const LinearWeights& linear : streams.out) matrices.push_back(&linear);
  for (const LayerStreamWeights& layer : streams.layers) {
    for (const LinearWeights* linear :
         {&layer.router, &layer.predict, &layer.correct, &layer.laurel_down, &layer.laurel_up})
      matrices.push_back(linear);
  }
  for (const SharedBlockWeights& layer : shared) {
    for (const LinearWeights* linear : {&layer.out, &layer.qkv_down, &layer.query_up, &layer.key_up,
                                        &layer.value_up, &layer.gate_down, &layer.gate_up})
      matrices.push_back(linear);
  }
  return matrices;
}

// All experts of a layer and what decides about them.
int64_t num_expert_parameters(const ExpertsSpec& experts, int64_t hidden_size) {
  if (!experts.any()) return 0;
  const int64_t rows = experts.intermediate_size * (experts.gated ? 2 : 1);
  int64_t expert = hidden_size * (rows + experts.intermediate_size);
  if (experts.bias) expert += rows + hidden_size;
  const int64_t router =
      hidden_size + (experts.router_bias ? 1 : 0) + (experts.has_correction ? 1 : 0);
  return experts.router.num_experts * (expert + router + (experts.has_scale ? 1 : 0)) +
         hidden_size * ((experts.has_shared_router ? 1 : 0) + (experts.own_norms ? 4 : 0));
}

// Of latent attention, but for its projections from and to the hidden state.
int64_t num_latent_parameters(const AttentionSpec& attention) {
  const LatentSpec& latent = attention.latent;
  if (!latent.any()) return 0;
  int64_t sum = latent.rank *
                (1 + int64_t{attention.num_heads} * (int64_t{latent.nope_dim} + latent.value_dim));
  if (latent.query_rank > 0)
    sum += latent.query_rank * (1 + latent.query_rows(attention.num_heads));
  return sum;
}

// The layer without the attention and MLP that another one has the weights of.
LayerSpec with_own_weights(LayerSpec layer, int32_t index) {
  if (!layer.shared.any() || layer.shared.weights_layer == index) return layer;
  layer.attention = {};
  layer.ffn = {};
  return layer;
}

// Of a block that layers share, beside its attention and MLP.
int64_t num_shared_parameters(const LayerSpec& layer, int32_t index, int64_t hidden_size) {
  const SharedBlockSpec& shared = layer.shared;
  if (!shared.any()) return 0;
  int64_t sum = hidden_size * hidden_size + (shared.weights_layer == index ? 2 * hidden_size : 0);
  sum += shared.update_rank * (hidden_size + layer.ffn.gate_up_rows());
  if (shared.updates_attention)
    sum += shared.update_rank * (6 * hidden_size + layer.attention.qkv_rows());
  return sum;
}

// `width`: of the decoder.
int64_t num_draft_input_parameters(const DraftInputSpec& input, int64_t width) {
  if (!input.any()) return 0;
  const int64_t norms = input.has_norms ? width + (input.is_beside ? width : input.hidden_size) : 0;
  return width * (input.hidden_size + (input.is_beside ? 0 : width) + (input.has_bias ? 1 : 0)) +
         norms;
}

}  // namespace

int64_t DecoderSpec::num_parameters() const {
  const int64_t norm = hidden_size * (block.norm_bias ? 2 : 1);
  int64_t sum = (vocab_size + (tied_head || !has_head ? 0 : num_logits())) * hidden_size +
                num_draft_input_parameters(draft_input, hidden_size) +
                (num_positions + num_token_types) * hidden_size + (block.final_norm ? norm : 0);
  for (const PoolingLayerSpec& layer : pooling.layers) {
    sum += layer.num_outputs * (layer.num_inputs + (layer.bias ? 1 : 0) + (layer.norm ? 1 : 0));
    if (layer.input_norm) sum += layer.num_inputs * (layer.input_norm->is_rms ? 1 : 2);
  }
  sum += (block.embedding_norm ? norm : 0) + (head_bias || logit_bias ? vocab_size : 0);
  if (relative_bias.any()) {
    sum += int64_t{relative_bias.num_buckets} * layers.front().attention.num_heads *
           (relative_bias.per_layer ? std::ssize(layers) : 1);
  }
  const auto num_layers = static_cast<int64_t>(layers.size());
  if (block.output_scales) sum += 2 * num_layers * hidden_size;
  sum += layer_inputs.num_parameters(hidden_size, num_layers) + (layer_scale ? num_layers : 0);
  sum += streams.num_parameters(hidden_size, num_layers);
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec layer = with_own_weights(layers[i], static_cast<int32_t>(i));
    const AttentionSpec& attention = layer.attention;
    const FfnSpec& ffn = layer.ffn;
    sum += num_shared_parameters(layers[i], static_cast<int32_t>(i), hidden_size);
    sum += layer.num_norms(block) * norm + layer.state.num_parameters(hidden_size);
    sum += hidden_size *
           (attention.qkv_rows() * (attention.reads_pairs ? 2 : 1) + attention.output_size());
    sum += num_latent_parameters(attention);
    if (cross.any()) sum += cross.num_parameters(hidden_size) + norm;
    sum += attention.qkv_bias ? attention.qkv_rows() : 0;
    sum += attention.o_bias && attention.any() ? hidden_size : 0;
    if (attention.qk_norm && !attention.plain_qk_norm && attention.any()) {
      const bool shared = *attention.qk_norm == QkNorm::kHead;
      sum += shared ? attention.head_dim : attention.q_rows();
      if (attention.has_own_kv()) sum += shared ? attention.head_dim : attention.kv_rows();
    }
    sum += hidden_size * (ffn.gate_up_rows() + ffn.intermediate_size);
    if (ffn.bias && ffn.intermediate_size > 0) sum += ffn.gate_up_rows() + hidden_size;
    sum += num_expert_parameters(ffn.experts, hidden_size);
    if (attention.has_sinks) sum += attention.num_heads;
    if (ffn.activation == Activation::kXielu) sum += 2;
  }
  return sum;
}

bool DecoderSpec::has_experts() const {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerSpec& layer) { return layer.ffn.experts.any(); });
}

bool DecoderSpec::has_states() const {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerSpec& layer) { return layer.state.any(); });
}

bool DecoderSpec::has_latents() const {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerSpec& layer) { return layer.attention.latent.any(); });
}

bool DecoderSpec::has_shared_blocks() const {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerSpec& layer) { return layer.shared.any(); });
}

DecoderWeights::DecoderWeights(const DecoderSpec& spec, const WeightOptions& options)
    : WeightSlots(options), spec_(spec), layers_(spec.layers.size()) {
  if (options.has_embedding && spec.vocab_size > 0) {
    add_table(TensorRole::kTokenEmbedding, spec.vocab_size, spec.hidden_size, token_embedding_);
  }
  if (spec.block.embedding_norm) add_norm(-1, TensorRole::kEmbeddingNorm, embedding_norm_);
  if (spec.num_positions > 0)
    add_table(TensorRole::kPositionEmbedding, spec.num_positions, spec.hidden_size,
              position_embedding_);
  if (spec.num_token_types > 0)
    add_table(TensorRole::kTokenTypeEmbedding, spec.num_token_types, spec.hidden_size,
              token_type_embedding_);
  if (spec.relative_bias.any()) add_relative_biases();
  if (spec.layer_inputs.any()) add_layer_inputs();
  if (spec.streams.any()) add_streams();
  if (spec.draft_input.any()) add_draft_input();
  for (size_t i = 0; i < layers_.size(); ++i) add_layer(static_cast<int32_t>(i));
  if (spec.block.final_norm) add_norm(-1, TensorRole::kFinalNorm, final_norm_, spec.logit_scale);
  if (spec.has_head) add_head();
  pooling_layers_.resize(spec.pooling.layers.size());
  for (size_t i = 0; i < pooling_layers_.size(); ++i)
    add_pooling_layer(spec.pooling.layers[i], pooling_layers_[i]);
}

void DecoderWeights::add_relative_biases() {
  const RelativeBiasSpec& bias = spec_.relative_bias;
  relative_biases_.resize(bias.per_layer ? layers_.size() : 1);
  for (size_t i = 0; i < relative_biases_.size(); ++i) {
    add_vector(bias.per_layer ? static_cast<int32_t>(i) : -1,
               {{TensorRole::kRelativeBias, bias.num_buckets}}, std::nullopt, false,
               relative_biases_[i]);
    slots_.back().vector_columns = spec_.layers.front().attention.num_heads;
  }
}

void DecoderWeights::add_head() {
  const TensorRole head = spec_.tied_head ? TensorRole::kTokenEmbedding : TensorRole::kLmHead;
  const size_t first = slots_.size();
  add_matrix(-1, {{head, spec_.num_logits()}}, std::nullopt, spec_.hidden_size, lm_head_, false);
  if (spec_.head_bias)
    add_vector(-1, {{TensorRole::kLmHead, spec_.vocab_size}}, std::nullopt, true, lm_head_.bias);
  if (spec_.logit_bias)
    add_vector(-1, {{TensorRole::kLogitBias, spec_.vocab_size}}, std::nullopt, false,
               lm_head_.bias);
  keep(first, {options_.share.outputs(spec_.vocab_size)});
}

// Few rows go through it and much hangs on them: it stays as it is stored, multiplied in float32.
void DecoderWeights::add_pooling_layer(const PoolingLayerSpec& layer, PoolingLayerWeights& out) {
  const SlotPart part{layer.role, layer.num_outputs};
  const size_t first = slots_.size();
  add_matrix(-1, {part}, std::nullopt, layer.num_inputs, out.dense, false);
  slots_.back().keeps_dtype = true;
  slots_.back().quant_compute = ComputeType::kF32;
  out.dense.weight.parts.front().spec.compute = ComputeType::kF32;
  if (layer.bias) add_vector(-1, {part}, std::nullopt, true, out.dense.bias);
  if (layer.norm)
    add_vector(-1, {{*layer.norm, layer.num_outputs}}, std::nullopt, false, out.norm.weight);
  if (layer.input_norm) {
    const std::vector<SlotPart> norm{{layer.input_norm->role, layer.num_inputs}};
    add_vector(-1, norm, std::nullopt, false, out.input_norm.weight);
    if (!layer.input_norm->is_rms) add_vector(-1, norm, std::nullopt, true, out.input_norm.bias);
  }
  for (size_t i = first; i < slots_.size(); ++i) slots_[i].layer = layer.index;
}

void DecoderWeights::add_layer(int32_t index) {
  LayerWeights& layer = layers_[static_cast<size_t>(index)];
  const LayerSpec spec = with_own_weights(spec_.layers[static_cast<size_t>(index)], index);
  const BlockStyle& block = spec_.block;
  if (block.input_norms && spec.has_mixer() && spec.has_input_norm)
    add_norm(index, TensorRole::kInputNorm, layer.input_norm);
  if (spec.shared.any()) add_shared_block(index);
  if (spec.attention.any()) add_attention(index);
  if (spec.state.any()) add_state(index);
  if (block.norms_behind() && spec.has_mixer())
    add_norm(index, TensorRole::kPostAttentionNorm, layer.post_attention_norm);
  if (spec.has_mlp_norm(block)) add_norm(index, TensorRole::kPreMlpNorm, layer.pre_mlp_norm);
  if (spec.ffn.intermediate_size > 0) add_mlp(index);
  if (spec.ffn.experts.any()) add_experts(index);
  if (block.norms_behind() && spec.ffn.any())
    add_norm(index, TensorRole::kPostMlpNorm, layer.post_mlp_norm);
  if (block.output_scales) {
    const int64_t width = spec_.hidden_size;
    add_vector(index, {{TensorRole::kPostAttentionNorm, width}}, std::nullopt, false,
               layer.post_attention_norm.weight);
    add_vector(index, {{TensorRole::kPostMlpNorm, width}}, std::nullopt, false,
               layer.post_mlp_norm.weight);
  }
  if (spec_.layer_inputs.any()) add_layer_input(index);
  if (spec_.streams.any()) add_layer_streams(index);
  if (spec_.layer_scale && spec.any())
    add_vector(index, {{TensorRole::kLayerScale, 1}}, std::nullopt, false, layer.scale);
}

void DecoderWeights::add_draft_input() {
  const DraftInputSpec& input = spec_.draft_input;
  const int64_t width = spec_.hidden_size;
  add_matrix(-1, {{TensorRole::kDraftInput, width}}, std::nullopt,
             input.hidden_size + (input.is_beside ? 0 : width), draft_input_.fc, input.has_bias);
  if (!input.has_norms) return;
  add_vector(-1, {{TensorRole::kDraftEmbeddingNorm, width}}, std::nullopt, false,
             draft_input_.embedding_norm);
  add_vector(-1, {{TensorRole::kDraftHiddenNorm, input.is_beside ? width : input.hidden_size}},
             std::nullopt, false, draft_input_.hidden_norm);
}

void DecoderWeights::add_layer_inputs() {
  const int64_t width = spec_.layer_inputs.size * static_cast<int64_t>(spec_.layers.size());
  add_table(TensorRole::kLayerTable, spec_.layer_inputs.vocab_size, width, layer_table_);
  add_matrix(-1, {{TensorRole::kLayerProjection, width}}, std::nullopt, spec_.hidden_size,
             layer_projection_, false);
  add_vector(-1, {{TensorRole::kLayerProjectionNorm, spec_.layer_inputs.size}}, std::nullopt, false,
             layer_projection_norm_);
}

void DecoderWeights::add_layer_input(int32_t index) {
  LayerWeights& layer = layers_[static_cast<size_t>(index)];
  const int64_t size = spec_.layer_inputs.size;
  add_matrix(index, {{TensorRole::kLayerInputGate, size}}, std::nullopt, spec_.hidden_size,
             layer.input_gate, false);
  add_matrix(index, {{TensorRole::kLayerInputUp, spec_.hidden_size}}, std::nullopt, size,
             layer.input_up, false);
  add_vector(index, {{TensorRole::kLayerInputNorm, spec_.hidden_size}}, std::nullopt, false,
             layer.input_norm_behind);
}

// What the router reads is also divided by the square root of its width.
void DecoderWeights::add_expert_norms(int32_t index) {
  ExpertsWeights& experts = layers_[static_cast<size_t>(index)].experts;
  const auto add = [&](TensorRole role, const float*& out) {
    add_vector(index, {{role, spec_.hidden_size}}, std::nullopt, false, out);
  };
  add(TensorRole::kRouterNorm, experts.router_norm);
  slots_.back().scale = 1.0f / std::sqrt(static_cast<float>(spec_.hidden_size));
  add(TensorRole::kPreExpertNorm, experts.pre_norm);
  add(TensorRole::kPostExpertNorm, experts.post_norm);
  add(TensorRole::kPostDenseNorm, experts.dense_norm);
}

void DecoderWeights::add_attention(int32_t index) {
  const AttentionSpec& attention = spec_.layers[static_cast<size_t>(index)].attention;
  LayerWeights& layer = layers_[static_cast<size_t>(index)];
  attention.latent.any() ? add_latent(index) : add_heads(index);
  const size_t output = slots_.size();
  add_matrix(index, {{TensorRole::kO, spec_.hidden_size}}, std::nullopt, attention.output_size(),
             layer.o, attention.o_bias);
  keep(output, {options_.share.outputs(spec_.hidden_size)});
  const CrossSpec& cross = spec_.cross;
  if (!cross.any()) return;
  add_norm(index, TensorRole::kCrossNorm, layer.cross.norm);
  add_matrix(index, {{TensorRole::kCrossQ, cross.rows()}}, std::nullopt, spec_.hidden_size,
             layer.cross.q, cross.bias);
  add_matrix(index, {{TensorRole::kCrossK, cross.rows()}, {TensorRole::kCrossV, cross.rows()}},
             std::nullopt, cross.source_size, layer.cross.kv, cross.bias);
  add_matrix(index, {{TensorRole::kCrossO, spec_.hidden_size}}, std::nullopt, cross.rows(),
             layer.cross.o, cross.bias);
}

void DecoderWeights::add_heads(int32_t index) {
  LayerWeights& layer = layers_[static_cast<size_t>(index)];
  const AttentionSpec& attention = spec_.layers[static_cast<size_t>(index)].attention;
  const size_t first = slots_.size();
  std::vector<SlotPart> parts = {{TensorRole::kQ, attention.q_rows()}};
  std::optional<TensorRole> fused;
  if (attention.has_own_kv()) {
    parts.push_back({TensorRole::kK, attention.kv_rows()});
    parts.push_back({TensorRole::kV, attention.kv_rows()});
    fused = TensorRole::kQkv;
  }
  if (attention.has_output_gate) parts.push_back({TensorRole::kQueryGate, attention.q_rows()});
  const int64_t columns = spec_.hidden_size * (attention.reads_pairs ? 2 : 1);
  add_matrix(index, std::move(parts), fused, columns, layer.qkv, attention.qkv_bias);
  for (size_t i = first; i < slots_.size(); ++i) slots_[i].row_groups = attention.num_heads;
  const HeadShare share = share_of(attention, options_.share);
  keep(first, share.qkv_rows(attention));
  if (attention.qk_norm && !attention.plain_qk_norm) {
    const bool shared = *attention.qk_norm == QkNorm::kHead;
    const int64_t q_rows = shared ? attention.head_dim : attention.q_rows();
    const int64_t k_rows = shared ? attention.head_dim : attention.kv_rows();
    add_vector(index, {{TensorRole::kQNorm, q_rows}}, std::nullopt, false, layer.q_norm);
    if (*attention.qk_norm == QkNorm::kLayerHead)
      keep(slots_.size() - 1, {share.q_rows(attention)});
    if (attention.has_own_kv()) {
      add_vector(index, {{TensorRole::kKNorm, k_rows}}, std::nullopt, false, layer.k_norm);
      if (*attention.qk_norm == QkNorm::kLayerHead)
        keep(slots_.size() - 1, {share.k_rows(attention)});
    }
  }
  for (size_t i = first; i < slots_.size(); ++i) slots_[i].head_rows = attention.head_dim;
  if (attention.has_sinks) {
    add_vector(index, {{TensorRole::kSinks, attention.num_heads}}, std::nullopt, false,
               layer.sinks);
    keep(slots_.size() - 1, {share.heads});
  }
}

void DecoderWeights::add_mlp(int32_t index) {
  LayerWeights& layer = layers_[static_cast<size_t>(index)];
  const FfnSpec& ffn = spec_.layers[static_cast<size_t>(index)].ffn;
  const int64_t size = ffn.intermediate_size;
  const bool shared = ffn.experts.any();
  const TensorRole gate = shared ? TensorRole::kSharedGate : TensorRole::kGate;
  const TensorRole up = shared ? TensorRole::kSharedUp : TensorRole::kUp;
  const TensorRole down = shared ? TensorRole::kSharedDown : TensorRole::kDown;
  const size_t inside = slots_.size();
  const RowRange own = options_.share.outputs(size);
  if (ffn.gated) {
    const std::optional<TensorRole> fused =
        shared ? std::nullopt : std::optional(TensorRole::kGateUp);
    add_matrix(index, {{gate, size}, {up, size}}, fused, spec_.hidden_size, layer.gate_up,
               ffn.bias);
    keep(inside, {own, {size + own.begin, size + own.end}});
  } else {
    add_matrix(index, {{up, size}}, std::nullopt, spec_.hidden_size, layer.gate_up, ffn.bias);
    keep(inside, {own});
  }
  const size_t output = slots_.size();
  add_matrix(index, {{down, spec_.hidden_size}}, std::nullopt, size, layer.down, ffn.bias);
  keep(output, {options_.share.outputs(spec_.hidden_size)});
  if (ffn.activation == Activation::kXielu) {
    add_vector(index, {{TensorRole::kXieluP, 1}, {TensorRole::kXieluN, 1}}, std::nullopt, false,
               layer.xielu);
  }
}

void DecoderWeights::add_experts(int32_t index) {
  const ExpertsSpec& spec = spec_.layers[static_cast<size_t>(index)].ffn.experts;
  ExpertsWeights& weights = layers_[static_cast<size_t>(index)].experts;
  const int64_t hidden = spec_.hidden_size;
  add_exact_matrix(index, {TensorRole::kRouter, spec.router.num_experts}, hidden, weights.router,
                   spec.router_bias);
  if (spec.has_correction) {
    add_vector(index, {{TensorRole::kRouterCorrection, spec.router.num_experts}}, std::nullopt,
               false, weights.correction);
  }
  if (spec.has_shared_router)
    add_exact_matrix(index, {TensorRole::kSharedRouter, 1}, hidden, weights.shared_router, false);
  if (spec.has_scale) {
    add_vector(index, {{TensorRole::kExpertScale, spec.router.num_experts}}, std::nullopt, false,
               weights.scale);
  }
  if (spec.own_norms) add_expert_norms(index);
  const bool spreads = options_.share.spreads_experts();
  const RowRange own = options_.share.experts(spec.router.num_experts);
  weights.experts.resize(static_cast<size_t>(spec.router.num_experts));
  for (size_t e = 0; e < weights.experts.size(); ++e) {
    const size_t first_slot = slots_.size();
    ExpertsWeights::Expert& expert = weights.experts[e];
    const auto at = static_cast<int64_t>(e);
    const bool is_own = at >= own.begin && at < own.end;
    const int64_t size = spec.intermediate_size;
    const auto add = [&](TensorRole role, int64_t rows, int64_t columns, LinearWeights& out) {
      const size_t first = slots_.size();
      add_matrix(index, {{role, rows}}, std::nullopt, columns, out, spec.bias);
      keep(first, {!spreads ? options_.share.outputs(rows)
                   : is_own ? RowRange{0, rows}
                            : RowRange{}});
    };
    if (spec.gated) add(TensorRole::kExpertGate, size, hidden, expert.gate);
    add(TensorRole::kExpertUp, size, hidden, expert.up);
    add(TensorRole::kExpertDown, hidden, size, expert.down);
    for (size_t slot = first_slot; slot < slots_.size(); ++slot) {
      slots_[slot].expert = static_cast<int32_t>(e);
    }
  }
}

void DecoderWeights::add_norm(int32_t layer, TensorRole role, NormWeights& out, float scale) {
  const size_t first = slots_.size();
  add_vector(layer, {{role, spec_.hidden_size}}, std::nullopt, false, out.weight);
  if (spec_.block.norm_bias)
    add_vector(layer, {{role, spec_.hidden_size}}, std::nullopt, true, out.bias);
  for (size_t i = first; i < slots_.size(); ++i) slots_[i].scale = scale;
}

int64_t DecoderWeights::linear_workspace(const Stream& stream, const MaxRows& rows) const {
  int64_t bytes = 0;
  const auto add = [&](int64_t max_rows, const LinearWeights& linear) {
    bytes = std::max(bytes, linear_workspace_bytes(stream, max_rows, linear));
  };
  add(rows.head, lm_head_);
  add(rows.attention, layer_projection_);
  for (const LinearWeights* linear : matrices_beside(streams_, shared_))
    add(rows.attention, *linear);
  add(rows.attention, draft_input_.fc);
  for (const PoolingLayerWeights& layer : pooling_layers_) add(rows.pooled, layer.dense);
  for (const LayerWeights& layer : layers_) {
    add(rows.attention, layer.qkv);
    add(rows.attention, layer.o);
    add(rows.attention, layer.latent.down);
    add(rows.attention, layer.latent.query_up);
    for (const LinearWeights* linear : state_matrices(layer.state)) add(rows.attention, *linear);
    add(rows.attention, layer.input_gate);
    add(rows.attention, layer.input_up);
    add(rows.mlp, layer.gate_up);
    add(rows.mlp, layer.down);
    add(rows.mlp, layer.experts.router);
    add(rows.mlp, layer.experts.shared_router);
  }
  return bytes;
}

ComputeType DecoderWeights::matrix_compute() const {
  for (const LayerWeights& layer : layers_) {
    for (const LinearWeights* linear : {&layer.o, &layer.state.out, &layer.down}) {
      if (!linear->is_empty()) return linear->weight.parts.front().spec.compute;
    }
  }
  return lm_head_.weight.parts.front().spec.compute;
}

int64_t DecoderWeights::matrix_bytes(const WeightPacking& packing) const {
  int64_t bytes = 0;
  const auto add = [&](const LinearWeights& linear) {
    for (const PackedWeight& part : linear.weight.parts) bytes += packing.packed_bytes(part.spec);
  };
  add(lm_head_);
  add(layer_projection_);
  for (const LinearWeights* linear : matrices_beside(streams_, shared_)) add(*linear);
  add(draft_input_.fc);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerWeights& layer = layers_[i];
    const LayerWeights& shared = block(i);
    add(layer.input_gate);
    add(layer.input_up);
    add(shared.qkv);
    add(shared.o);
    add(layer.cross.q);
    add(layer.cross.kv);
    add(layer.cross.o);
    add(layer.latent.down);
    add(layer.latent.query_up);
    for (const LinearWeights& head : layer.latent.key_up) add(head);
    for (const LinearWeights& head : layer.latent.value_up) add(head);
    for (const LinearWeights* linear : state_matrices(layer.state)) add(*linear);
    add(shared.gate_up);
    add(shared.down);
    add(layer.experts.router);
    add(layer.experts.shared_router);
    for (const ExpertsWeights::Expert& expert : layer.experts.experts) {
      add(expert.gate);
      add(expert.up);
      add(expert.down);
    }
  }
  return bytes;
}

}  // namespace quire
