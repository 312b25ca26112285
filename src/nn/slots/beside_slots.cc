// The slots through which a checkpoint fills what stands beside attention and MLP: several residual
// streams, and blocks that layers share.
#include <utility>

#include "nn/decoder_weights.h"

namespace quire {

void DecoderWeights::add_streams() {
  const auto others = static_cast<size_t>(spec_.streams.count - 1);
  streams_.layers.resize(layers_.size());
  streams_.in.resize(others);
  streams_.out.resize(others);
  const auto add = [&](TensorRole role, std::vector<LinearWeights>& out) {
    for (size_t i = 0; i < out.size(); ++i) {
      add_matrix(-1, {{role, spec_.hidden_size}}, std::nullopt, spec_.hidden_size, out[i], false);
      slots_.back().expert = static_cast<int32_t>(i);
    }
  };
  add(TensorRole::kStreamIn, streams_.in);
  add(TensorRole::kStreamOut, streams_.out);
}

void DecoderWeights::add_layer_streams(int32_t index) {
  LayerStreamWeights& weights = streams_.layers[static_cast<size_t>(index)];
  const StreamsSpec& spec = spec_.streams;
  const int64_t width = spec_.hidden_size;
  const int64_t count = spec.count;
  add_vector(index, {{TensorRole::kStreamRouterNorm, width}}, std::nullopt, false,
             weights.router_norm);
  slots_.back().scale = 1.0f / static_cast<float>(width);
  add_exact_matrix(index, {TensorRole::kStreamRouter, count}, width, weights.router, false);
  add_exact_matrix(index, {TensorRole::kStreamPredict, count * count}, count, weights.predict,
                   false);
  add_exact_matrix(index, {TensorRole::kStreamCorrect, count}, count, weights.correct, false);
  if (spec.scales_output)
    add_vector(index, {{TensorRole::kStreamScale, width}}, std::nullopt, false, weights.scale);
  if (spec.laurel_rank == 0) return;
  add_matrix(index, {{TensorRole::kLaurelDown, spec.laurel_rank}}, std::nullopt, width,
             weights.laurel_down, false);
  add_matrix(index, {{TensorRole::kLaurelUp, width}}, std::nullopt, spec.laurel_rank,
             weights.laurel_up, false);
  add_vector(index, {{TensorRole::kLaurelNorm, width}}, std::nullopt, false, weights.laurel_norm);
}

void DecoderWeights::add_shared_block(int32_t index) {
  const LayerSpec& layer = spec_.layers[static_cast<size_t>(index)];
  const SharedBlockSpec& spec = layer.shared;
  shared_.resize(layers_.size());
  SharedBlockWeights& weights = shared_[static_cast<size_t>(index)];
  weights.first_use = spec.weights_layer;
  const int64_t width = spec_.hidden_size;
  if (spec.weights_layer == index)
    add_vector(index, {{TensorRole::kPairNorm, 2 * width}}, std::nullopt, false, weights.pair_norm);
  add_matrix(index, {{TensorRole::kBlockOut, width}}, std::nullopt, width, weights.out, false);
  // The updates of all uses lie with the block.
  const auto add = [&](std::vector<SlotPart> parts, int64_t columns, LinearWeights& out) {
    add_matrix(spec.weights_layer, std::move(parts), std::nullopt, columns, out, false);
    slots_.back().expert = spec.use;
  };
  const int64_t rank = spec.update_rank;
  add({{TensorRole::kUpdateGateDown, rank}}, width, weights.gate_down);
  add({{TensorRole::kUpdateGateUp, layer.ffn.gate_up_rows()}}, rank, weights.gate_up);
  if (!spec.updates_attention) return;
  add({{TensorRole::kUpdateQueryDown, rank},
       {TensorRole::kUpdateKeyDown, rank},
       {TensorRole::kUpdateValueDown, rank}},
      2 * width, weights.qkv_down);
  add({{TensorRole::kUpdateQueryUp, layer.attention.q_rows()}}, rank, weights.query_up);
  add({{TensorRole::kUpdateKeyUp, layer.attention.kv_rows()}}, rank, weights.key_up);
  add({{TensorRole::kUpdateValueUp, layer.attention.kv_rows()}}, rank, weights.value_up);
}

}  // namespace quire
