// The slots through which a checkpoint fills blocks that layers share, beside those of attention and
// MLP.
#include "nn/decoder_weights.h"

namespace quire {

void DecoderWeights::add_shared_block(int32_t index) {
  const LayerSpec& layer = spec_.layers[static_cast<size_t>(index)];
  const SharedBlockSpec& spec = layer.shared;
  SharedBlockWeights& weights = layers_[static_cast<size_t>(index)].shared;
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
