// These are the weights of a layer's routed experts.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/experts.h"
#include "nn/weights/linear_weights.h"

namespace quire {

struct ExpertsWeights {
  struct Expert {
    LinearWeights gate;  // [I, E]; empty without a gate
    LinearWeights up;    // [I, E]
    LinearWeights down;  // [E, I]
  };

  LinearWeights router;               // [X, E]
  const float* correction = nullptr;  // [X] or null
  LinearWeights shared_router;        // [1, E]; empty when every token takes all of the shared MLP
  const float* scale = nullptr;       // [X] or null
  // With ExpertsSpec::own_norms, these are [E] each.
  const float* router_norm = nullptr;
  const float* pre_norm = nullptr;
  const float* post_norm = nullptr;
  const float* dense_norm = nullptr;
  // Slots, one of each expert and in its order unless ranks have experts whole: then some experts may
  // have several (nn/experts/expert_placement.h), and those of other ranks are empty.
  std::vector<Expert> slots;
  std::vector<int32_t> expert_of;  // by slot

  // By slot, as the kernels take them. Points into this object.
  std::vector<ExpertWeights> views() const;
};

}  // namespace quire
