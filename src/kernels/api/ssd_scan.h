#pragma once

#include <cstdint>

#include "kernels/api/state.h"
#include "tensor/activations.h"

namespace quire {

// Mamba-2's scan (Dao and Gu, arXiv 2405.21060). Head h has a state S [N, P] and reads B and C of
// group g = h * G / H:
//   S[n, p] = decay[t, h] * S[n, p] + b[t, g, n] * (delta[t, h] * x[t, h, p])
//   out[t, h, p] = sum_n S[n, p] * c[t, g, n] + d[h] * x[t, h, p]
struct SsdScanParams {
  ConstActivations x = nullptr;  // [T, H, P]
  ConstActivations b = nullptr;  // [T, G, N]
  ConstActivations c = nullptr;  // [T, G, N]
  int64_t x_stride = 0;          // elements from row to row of these three
  const float* delta = nullptr;  // [T, H]
  const float* decay = nullptr;  // [T, H]
  const float* d = nullptr;      // [H]
  Activations out = nullptr;     // [T, H, P], not x
  StateSegments segments;
  StateView state;         // ssd_scan_state_floats()
  int32_t num_heads = 0;   // H
  int32_t num_groups = 0;  // G, a divisor of H
  int64_t head_dim = 0;    // P
  int64_t num_states = 0;  // N
};
void ssd_scan(Stream& stream, const SsdScanParams& params);

// Returns the floats of one state. P is padded to whole vectors of 16.
inline constexpr int64_t ssd_scan_state_floats(int32_t num_heads, int64_t head_dim,
                                               int64_t num_states) {
  return num_heads * ((head_dim + 15) / 16 * 16) * num_states;
}

}  // namespace quire
