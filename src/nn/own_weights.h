// Removes from a layer what it shares with another layer (nn/spec/shared_block_spec.h).
#pragma once

#include <cstdint>

#include "nn/decoder_spec.h"

namespace quire {

// Returns layer `index` without the attention and MLP whose weights belong to another layer.
inline LayerSpec with_own_weights(LayerSpec layer, int32_t index) {
  if (!layer.shared.any() || layer.shared.weights_layer == index) return layer;
  layer.attention = {};
  layer.ffn = {};
  return layer;
}

}  // namespace quire
