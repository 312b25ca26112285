#pragma once

namespace quire {

struct NormWeights {
  const float* weight = nullptr;  // [E]
  const float* bias = nullptr;    // [E] or null
};

}  // namespace quire
