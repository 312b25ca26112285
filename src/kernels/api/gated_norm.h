#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

enum class Gate : uint8_t { kNone, kSilu, kSigmoid };

// gated_norm() applies an RMSNorm to each group x' of a row, a gate, or both, in place:
//   norm(x') = x' / sqrt(mean(x'^2) + eps) * scale * weight
//   x = norm(x) * act(gate), or norm(x * act(gate)) with gate_first.
struct GatedNormParams {
  Activations x = nullptr;  // [T, N]
  int64_t x_stride = 0;     // elements from row to row
  Gate act = Gate::kNone;
  ConstActivations gate = nullptr;  // [T, N]; unused without a gate
  int64_t gate_stride = 0;
  bool gate_first = false;
  bool normalizes = true;         // false: the gate alone
  const float* weight = nullptr;  // [N], or [group_size] when shared; null: 1
  bool shared_weight = false;     // all groups have one weight
  float scale = 1.0f;
  const float* scale_factor = nullptr;  // [1], by which `scale` is multiplied, or null
  float eps = 1e-6f;
  int64_t num_tokens = 0;  // T
  int64_t size = 0;        // N
  int64_t group_size = 0;  // a divisor of N
};
void gated_norm(Stream& stream, const GatedNormParams& params);

}  // namespace quire
