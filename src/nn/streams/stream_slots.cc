// The slots through which a checkpoint fills several residual streams.
#include <cmath>

#include "nn/decoder_weights.h"

namespace quire {

void DecoderWeights::add_streams() {
  const auto others = static_cast<size_t>(spec_.streams.count - 1);
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
  LayerStreamWeights& weights = layers_[static_cast<size_t>(index)].streams;
  const StreamsSpec& spec = spec_.streams;
  const int64_t width = spec_.hidden_size;
  const int64_t count = spec.count;
  if (spec.any()) {
    add_vector(index, {{TensorRole::kStreamRouterNorm, width}}, std::nullopt, false,
               weights.router_norm);
    slots_.back().scale = 1.0f / static_cast<float>(width);
    add_exact_matrix(index, {TensorRole::kStreamRouter, count}, width, weights.router, false);
    add_exact_matrix(index, {TensorRole::kStreamPredict, count * count}, count, weights.predict,
                     false);
    add_exact_matrix(index, {TensorRole::kStreamCorrect, count}, count, weights.correct, false);
    if (spec.scales_output)
      add_vector(index, {{TensorRole::kStreamScale, width}}, std::nullopt, false, weights.scale);
  }
  if (spec.laurel_rank == 0) return;
  add_matrix(index, {{TensorRole::kLaurelDown, spec.laurel_rank}}, std::nullopt, width,
             weights.laurel_down, false);
  add_matrix(index, {{TensorRole::kLaurelUp, width}}, std::nullopt, spec.laurel_rank,
             weights.laurel_up, false);
  add_vector(index, {{TensorRole::kLaurelNorm, width}}, std::nullopt, false, weights.laurel_norm);
}

}  // namespace quire
