// The weights of a layer's mixer with a state (nn/spec/state_spec.h).
#pragma once

#include "nn/weights/linear_weights.h"

namespace quire {

struct StateWeights {
  LinearWeights in;                  // [in_rows, E]
  const float* conv = nullptr;       // [C, K]
  const float* conv_bias = nullptr;  // [C] or null
  LinearWeights x;                   // [R + 2 N, I] of a selective scan
  LinearWeights step;  // [I, R] of a selective scan, [H * Dk, R] of a decay per channel
  LinearWeights gate;  // [I, R] with a decay per channel
  const float* step_bias = nullptr;  // as wide as the step
  const float* a = nullptr;          // [H], or [I, N] of a selective scan: < 0
  const float* d = nullptr;          // [H], or [I] of a selective scan; null of the delta rule
  const float* step_norm = nullptr;  // [R], with StepNorms::kWeighted
  const float* b_norm = nullptr;     // [N]
  const float* c_norm = nullptr;     // [N]
  const float* norm = nullptr;       // [I], [norm_group] when shared, or null
  LinearWeights out;                 // [E, I]
};

}  // namespace quire
