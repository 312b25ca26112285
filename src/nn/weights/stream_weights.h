// The weights of StreamsSpec.
#pragma once

#include <vector>

#include "nn/weights/linear_weights.h"

namespace quire {

struct LayerStreamWeights {
  const float* router_norm = nullptr;  // [E]
  LinearWeights router;                // [S, E]
  LinearWeights predict;               // [S * S, S]
  LinearWeights correct;               // [S, S]
  const float* scale = nullptr;        // [E], with StreamsSpec::scales_output
  LinearWeights laurel_down;           // [R, E]
  LinearWeights laurel_up;             // [E, R]
  const float* laurel_norm = nullptr;  // [E]
};

struct StreamWeights {
  // One [E, E] for each stream but the first.
  std::vector<LinearWeights> in;
  std::vector<LinearWeights> out;
  std::vector<LayerStreamWeights> layers;
};

}  // namespace quire
