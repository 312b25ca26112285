// The weights of SharedBlockSpec other than those of its attention and MLP.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/weights/linear_weights.h"

namespace quire {

struct SharedBlockWeights {
  // The layer that has the block's weights; -1: the layer has no block.
  int32_t first_use = -1;
  const float* pair_norm = nullptr;  // [2 E], at the first use
  LinearWeights out;                 // [E, E]
  // Low-rank updates. qkv_down computes the inner values of queries, keys and values, one after the
  // other.
  LinearWeights qkv_down;   // [3 r, 2 E], or empty
  LinearWeights query_up;   // [Hq * D, r]
  LinearWeights key_up;     // [Hkv * D, r]
  LinearWeights value_up;   // [Hkv * D, r]
  LinearWeights gate_down;  // [r, E]
  LinearWeights gate_up;    // [2 F, r]
};

using SharedWeights = std::vector<SharedBlockWeights>;  // per layer; empty without such blocks

}  // namespace quire
