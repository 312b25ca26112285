// Which weights a layer has of its own, where layers share some (nn/spec/shared_block_spec.h).
#pragma once

#include <cstdint>

#include "nn/decoder_spec.h"

namespace quire {

// Layer `index` without the attention and MLP that another layer has the weights of.
inline LayerSpec with_own_weights(LayerSpec layer, int32_t index) {
  if (!layer.shared.any() || layer.shared.weights_layer == index) return layer;
  layer.attention = {};
  layer.ffn = {};
  return layer;
}

}  // namespace quire
