#pragma once

#include <cstdint>

#include "kernels/api/state.h"
#include "tensor/activations.h"

namespace quire {

inline constexpr int64_t kMaxDeltaKeyDim = 256;

// delta_rule() computes the gated delta rule (Yang et al., arXiv 2412.06464), or with a decay per
// channel Kimi Delta Attention (arXiv 2510.26692). Value head h has a state S [Dk, Dv]:
//   S = diag(decay[t, h]) S;  u = beta[t, h] * (v[t, h] - S^T k);  S = S + k u^T;  out = S^T q
// q and k are those of key head h * Hk / H, or h mod Hk with tiled_heads.
struct DeltaRuleParams {
  ConstActivations q = nullptr;    // [T, Hk, Dk], already scaled
  ConstActivations k = nullptr;    // [T, Hk, Dk]
  ConstActivations v = nullptr;    // [T, H, Dv]
  int64_t qkv_stride = 0;          // elements from row to row of these three
  const float* decay = nullptr;    // [T, H], or [T, H, Dk]
  bool has_channel_decay = false;  // `decay` is [T, H, Dk]
  const float* beta = nullptr;     // [T, H]
  Activations out = nullptr;       // [T, H, Dv], not v
  StateSegments segments;
  StateView state;            // delta_rule_state_floats()
  int32_t num_heads = 0;      // H
  int32_t num_key_heads = 0;  // Hk, a divisor of H
  bool tiled_heads = false;   // the key head of head h is h mod Hk
  int64_t key_dim = 0;        // Dk <= kMaxDeltaKeyDim
  int64_t value_dim = 0;      // Dv
};
void delta_rule(Stream& stream, const DeltaRuleParams& params);

// Returns the floats of one state. Dv is padded to whole vectors of 16.
inline constexpr int64_t delta_rule_state_floats(int32_t num_heads, int64_t key_dim,
                                                 int64_t value_dim) {
  return num_heads * key_dim * ((value_dim + 15) / 16 * 16);
}

}  // namespace quire
