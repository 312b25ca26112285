// The weights of a layer's routed experts.
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
  // [1, E]; empty if every token has weight 1 for the shared MLP.
  LinearWeights shared_router;
  const float* scale = nullptr;  // [X] or null
  // [E] each, for ExpertsSpec::own_norms.
  const float* router_norm = nullptr;
  const float* pre_norm = nullptr;
  const float* post_norm = nullptr;
  const float* dense_norm = nullptr;
  // Slot i holds expert i, unless experts are spread over ranks: then an expert may have several
  // slots (nn/experts/expert_placement.h), and those of other ranks are empty.
  std::vector<Expert> slots;
  std::vector<int32_t> expert_of;  // by slot

  // Returns the experts in the kernels' form, by slot. They point into this object.
  std::vector<ExpertWeights> views() const;
};

}  // namespace quire
