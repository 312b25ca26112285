// The slots of what stands beside attention and MLP: norms, inputs of layers, several residual
// streams, blocks that layers share, a drafting decoder's input, heads.
#include <utility>
#include <vector>

#include "nn/weights/decoder_slots.h"

namespace quire {

void add_norm_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer, TensorRole role,
                    NormWeights& out) {
  const SlotPart part{role, spec.hidden_size};
  slots.add_vector(layer, part, out.weight);
  if (spec.block.norm_bias) slots.add_vector(layer, part, out.bias, true);
}

void add_bound_slots(WeightSlots& slots, int32_t layer, size_t matrix_slot,
                     const std::vector<TensorRole>& roles, LinearWeights& out) {
  constexpr int64_t kBounds = 4;
  std::vector<SlotPart> parts;
  parts.reserve(roles.size());
  for (const TensorRole role : roles) parts.push_back({role, kBounds});
  slots.from(matrix_slot).front().keeps_parts = true;
  slots.add_vector(layer, std::move(parts), std::nullopt, false, out.bounds);
}

void add_layer_input_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                           LayerWeights& layer) {
  const int64_t size = spec.layer_inputs.size;
  slots.add_matrix(index, {TensorRole::kLayerInputGate, size}, spec.hidden_size, layer.input_gate);
  slots.add_matrix(index, {TensorRole::kLayerInputUp, spec.hidden_size}, size, layer.input_up);
  slots.add_vector(index, {TensorRole::kLayerInputNorm, spec.hidden_size}, layer.input_norm_behind);
}

void add_stream_slots(WeightSlots& slots, const DecoderSpec& spec, StreamWeights& streams) {
  const auto others = static_cast<size_t>(spec.streams.count - 1);
  streams.layers.resize(spec.layers.size());
  streams.in.resize(others);
  streams.out.resize(others);
  const auto add = [&](TensorRole role, std::vector<LinearWeights>& out) {
    for (size_t i = 0; i < out.size(); ++i) {
      slots.add_matrix(-1, {role, spec.hidden_size}, spec.hidden_size, out[i]);
      slots.last().expert = static_cast<int32_t>(i);
    }
  };
  add(TensorRole::kStreamIn, streams.in);
  add(TensorRole::kStreamOut, streams.out);
}

void add_layer_stream_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                            LayerStreamWeights& weights) {
  const StreamsSpec& streams = spec.streams;
  const int64_t width = spec.hidden_size;
  const int64_t count = streams.count;
  slots.add_vector(index, {TensorRole::kStreamRouterNorm, width}, weights.router_norm);
  slots.last().scale = 1.0f / static_cast<float>(width);
  slots.add_exact_matrix(index, {TensorRole::kStreamRouter, count}, width, weights.router, false);
  slots.add_exact_matrix(index, {TensorRole::kStreamPredict, count * count}, count, weights.predict,
                         false);
  slots.add_exact_matrix(index, {TensorRole::kStreamCorrect, count}, count, weights.correct, false);
  if (streams.scales_output)
    slots.add_vector(index, {TensorRole::kStreamScale, width}, weights.scale);
  if (streams.laurel_rank == 0) return;
  slots.add_matrix(index, {TensorRole::kLaurelDown, streams.laurel_rank}, width,
                   weights.laurel_down);
  slots.add_matrix(index, {TensorRole::kLaurelUp, width}, streams.laurel_rank, weights.laurel_up);
  slots.add_vector(index, {TensorRole::kLaurelNorm, width}, weights.laurel_norm);
}

void add_shared_block_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                            SharedBlockWeights& weights) {
  const LayerSpec& layer = spec.layers[static_cast<size_t>(index)];
  const SharedBlockSpec& shared = layer.shared;
  weights.first_use = shared.weights_layer;
  const int64_t width = spec.hidden_size;
  if (shared.weights_layer == index)
    slots.add_vector(index, {TensorRole::kPairNorm, 2 * width}, weights.pair_norm);
  slots.add_matrix(index, {TensorRole::kBlockOut, width}, width, weights.out);
  // The updates of all uses lie with the block.
  const auto add = [&](std::vector<SlotPart> parts, int64_t columns, LinearWeights& out) {
    slots.add_matrix(shared.weights_layer, std::move(parts), std::nullopt, columns, out, false);
    slots.last().expert = shared.use;
  };
  const int64_t rank = shared.update_rank;
  add({{TensorRole::kUpdateGateDown, rank}}, width, weights.gate_down);
  add({{TensorRole::kUpdateGateUp, layer.ffn.gate_up_rows()}}, rank, weights.gate_up);
  if (!shared.updates_attention) return;
  add({{TensorRole::kUpdateQueryDown, rank},
       {TensorRole::kUpdateKeyDown, rank},
       {TensorRole::kUpdateValueDown, rank}},
      2 * width, weights.qkv_down);
  add({{TensorRole::kUpdateQueryUp, layer.attention.q_rows()}}, rank, weights.query_up);
  add({{TensorRole::kUpdateKeyUp, layer.attention.kv_rows()}}, rank, weights.key_up);
  add({{TensorRole::kUpdateValueUp, layer.attention.kv_rows()}}, rank, weights.value_up);
}

void add_draft_input_slots(WeightSlots& slots, const DecoderSpec& spec,
                           DraftInputWeights& weights) {
  const DraftInputSpec& input = spec.draft_input;
  const int64_t width = spec.hidden_size;
  slots.add_matrix(-1, {TensorRole::kDraftInput, width},
                   input.hidden_size + (input.is_beside ? 0 : width), weights.fc, input.has_bias);
  if (!input.has_norms) return;
  slots.add_vector(-1, {TensorRole::kDraftEmbeddingNorm, width}, weights.embedding_norm);
  slots.add_vector(-1, {TensorRole::kDraftHiddenNorm, input.is_beside ? width : input.hidden_size},
                   weights.hidden_norm);
}

void add_head_slots(WeightSlots& slots, const DecoderSpec& spec, LinearWeights& out) {
  const TensorRole head = spec.tied_head ? TensorRole::kTokenEmbedding : TensorRole::kLmHead;
  const size_t first = slots.count();
  slots.add_matrix(-1, {head, spec.num_logits() - spec.unsaid_tokens}, spec.hidden_size, out);
  if (spec.head_bias) slots.add_vector(-1, {TensorRole::kLmHead, spec.vocab_size}, out.bias, true);
  if (spec.logit_bias) slots.add_vector(-1, {TensorRole::kLogitBias, spec.vocab_size}, out.bias);
  slots.keep(first, {slots.options().share.outputs(spec.vocab_size)});
}

void add_pooling_slots(WeightSlots& slots, const PoolingLayerSpec& layer,
                       PoolingLayerWeights& out) {
  const SlotPart part{layer.role, layer.num_outputs};
  const size_t first = slots.count();
  slots.add_matrix(-1, part, layer.num_inputs, out.dense);
  slots.last().keeps_dtype = true;
  slots.last().quant_compute = ComputeType::kF32;
  out.dense.weight.parts.front().spec.compute = ComputeType::kF32;
  if (layer.bias) slots.add_vector(-1, part, out.dense.bias, true);
  if (layer.norm) slots.add_vector(-1, {*layer.norm, layer.num_outputs}, out.norm.weight);
  if (layer.input_norm) {
    const SlotPart norm{layer.input_norm->role, layer.num_inputs};
    if (layer.input_norm->has_weight) slots.add_vector(-1, norm, out.input_norm.weight);
    if (!layer.input_norm->is_rms) slots.add_vector(-1, norm, out.input_norm.bias, true);
    if (layer.input_norm->shifts_input) {
      slots.add_vector(-1, {TensorRole::kDenseInputShift, layer.num_inputs}, out.input_shift);
      slots.last().scale = layer.input_norm->shift_scale;
      slots.add_vector(-1, {TensorRole::kDenseInputFactor, layer.num_inputs}, out.input_factor);
    }
  }
  for (WeightSlot& slot : slots.from(first)) slot.layer = layer.index;
}

}  // namespace quire
