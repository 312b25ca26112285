#include "nn/weights/decoder_weights.h"

#include <algorithm>
#include <array>

#include "nn/own_weights.h"
#include "nn/weights/decoder_slots.h"

namespace quire {
namespace {

std::array<const LinearWeights*, 5> state_matrices(const StateWeights& state) {
  return {&state.in, &state.x, &state.step, &state.gate, &state.out};
}

// Returns the matrices of residual streams and of shared blocks.
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

void add_relative_biases(WeightSlots& slots, const DecoderSpec& spec,
                         std::vector<const float*>& out) {
  const RelativeBiasSpec& bias = spec.relative_bias;
  out.resize(bias.per_layer ? spec.layers.size() : 1);
  for (size_t i = 0; i < out.size(); ++i) {
    slots.add_vector(bias.per_layer ? static_cast<int32_t>(i) : -1,
                     {TensorRole::kRelativeBias, bias.num_buckets}, out[i]);
    slots.last().vector_columns = spec.layers.front().attention.num_heads;
  }
}

}  // namespace

DecoderWeights::DecoderWeights(const DecoderSpec& spec, const WeightOptions& options)
    : spec_(spec), slots_(options), layers_(spec.layers.size()) {
  if (options.has_embedding && spec.vocab_size > 0) {
    slots_.add_table(TensorRole::kTokenEmbedding, spec.vocab_size, spec.hidden_size,
                     token_embedding_);
  }
  if (spec.block.embedding_norm)
    add_norm_slots(slots_, spec, -1, TensorRole::kEmbeddingNorm, embedding_norm_);
  if (spec.num_positions > 0) {
    slots_.add_table(TensorRole::kPositionEmbedding, spec.num_positions, spec.hidden_size,
                     position_embedding_);
  }
  if (spec.num_token_types > 0) {
    slots_.add_table(TensorRole::kTokenTypeEmbedding, spec.num_token_types, spec.hidden_size,
                     token_type_embedding_);
  }
  if (spec.relative_bias.any()) add_relative_biases(slots_, spec, relative_biases_);
  if (spec.layer_inputs.any()) {
    const int64_t width = spec.layer_inputs.size * static_cast<int64_t>(layers_.size());
    slots_.add_table(TensorRole::kLayerTable, spec.layer_inputs.vocab_size, width, layer_table_);
    slots_.add_matrix(-1, {TensorRole::kLayerProjection, width}, spec.hidden_size,
                      layer_projection_);
    slots_.add_vector(-1, {TensorRole::kLayerProjectionNorm, spec.layer_inputs.size},
                      layer_projection_norm_);
  }
  if (spec.streams.any()) add_stream_slots(slots_, spec, streams_);
  if (spec.draft_input.any()) add_draft_input_slots(slots_, spec, draft_input_);
  if (spec.has_shared_blocks()) shared_.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) add_layer(static_cast<int32_t>(i));
  if (spec.block.final_norm) {
    const size_t first = slots_.count();
    add_norm_slots(slots_, spec, -1, TensorRole::kFinalNorm, final_norm_);
    for (WeightSlot& slot : slots_.from(first)) slot.scale = spec.logit_scale;
  }
  if (spec.has_head) add_head_slots(slots_, spec, lm_head_);
  pooling_layers_.resize(spec.pooling.layers.size());
  for (size_t i = 0; i < pooling_layers_.size(); ++i)
    add_pooling_slots(slots_, spec.pooling.layers[i], pooling_layers_[i]);
}

void DecoderWeights::add_layer(int32_t index) {
  LayerWeights& layer = layers_[static_cast<size_t>(index)];
  const LayerSpec spec = with_own_weights(spec_.layers[static_cast<size_t>(index)], index);
  const BlockStyle& block = spec_.block;
  const auto add_norm = [&](TensorRole role, NormWeights& out) {
    add_norm_slots(slots_, spec_, index, role, out);
  };
  if (block.input_norms && spec.has_mixer() && spec.has_input_norm)
    add_norm(TensorRole::kInputNorm, layer.input_norm);
  if (spec.shared.any())
    add_shared_block_slots(slots_, spec_, index, shared_[static_cast<size_t>(index)]);
  if (spec.attention.any()) add_attention_slots(slots_, spec_, index, layer);
  if (spec.reads_source) add_cross_slots(slots_, spec_, index, layer.cross);
  if (spec.state.any()) add_state_slots(slots_, spec_, index, layer.state);
  if (block.norms_behind() && spec.has_mixer())
    add_norm(TensorRole::kPostAttentionNorm, layer.post_attention_norm);
  if (spec.has_mlp_norm(block)) add_norm(TensorRole::kPreMlpNorm, layer.pre_mlp_norm);
  if (spec.ffn.intermediate_size > 0) add_mlp_slots(slots_, spec_, index, layer);
  if (spec.ffn.experts.any()) add_expert_slots(slots_, spec_, index, layer.experts);
  if ((block.norms_behind() && spec.ffn.any()) || spec.ffn.has_output_norm)
    add_norm(TensorRole::kPostMlpNorm, layer.post_mlp_norm);
  if (block.output_scales || block.output_gates) {
    const int64_t width = block.output_gates ? 1 : spec_.hidden_size;
    slots_.add_vector(index, {TensorRole::kPostAttentionNorm, width},
                      layer.post_attention_norm.weight);
    slots_.add_vector(index, {TensorRole::kPostMlpNorm, width}, layer.post_mlp_norm.weight);
  }
  if (spec_.layer_inputs.any()) add_layer_input_slots(slots_, spec_, index, layer);
  if (spec_.streams.any())
    add_layer_stream_slots(slots_, spec_, index, streams_.layers[static_cast<size_t>(index)]);
  if (spec_.layer_scale && spec.any())
    slots_.add_vector(index, {TensorRole::kLayerScale, 1}, layer.scale);
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
    for (const LinearWeights* linear : index_matrices(layer.index)) add(rows.attention, *linear);
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

MatrixBytes DecoderWeights::matrix_bytes(const WeightPacking& packing) const {
  MatrixBytes bytes;
  const auto add_to = [&](int64_t& sum, const LinearWeights& linear) {
    for (const PackedWeight& part : linear.weight.parts) sum += packing.packed_bytes(part.spec);
  };
  const auto add = [&](const LinearWeights& linear) { add_to(bytes.dense, linear); };
  add_to(bytes.head, lm_head_);
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
    for (const LinearWeights* linear : index_matrices(layer.index)) add(*linear);
    for (const LinearWeights& head : layer.latent.key_up) add(head);
    for (const LinearWeights& head : layer.latent.value_up) add(head);
    for (const LinearWeights* linear : state_matrices(layer.state)) add(*linear);
    add(shared.gate_up);
    add(shared.down);
    add(layer.experts.router);
    add(layer.experts.shared_router);
    for (const ExpertsWeights::Expert& expert : layer.experts.slots) {
      add_to(bytes.experts, expert.gate);
      add_to(bytes.experts, expert.up);
      add_to(bytes.experts, expert.down);
    }
  }
  return bytes;
}

}  // namespace quire
