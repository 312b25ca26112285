#pragma once

#include <cstdint>

#include "kernels/api/state.h"
#include "tensor/activations.h"

namespace quire {

inline constexpr int64_t kMaxScanStates = 256;

// Mamba's selective scan (Gu and Dao, arXiv 2312.00752). Every channel i has a state h [N]:
//   h[n] = exp(delta[t, i] * a[i, n]) * h[n] + delta[t, i] * x[t, i] * b[t, n]
//   out[t, i] = sum_n c[t, n] * h[n] + d[i] * x[t, i]
struct SelectiveScanParams {
  ConstActivations x = nullptr;      // [T, D]
  int64_t x_stride = 0;              // elements from row to row
  ConstActivations delta = nullptr;  // [T, D], > 0
  ConstActivations b = nullptr;      // [T, N]
  ConstActivations c = nullptr;      // [T, N]
  int64_t bc_stride = 0;
  const float* a = nullptr;   // [D, N], < 0
  const float* d = nullptr;   // [D]
  Activations out = nullptr;  // [T, D], not x
  StateSegments segments;
  StateView state;           // selective_scan_state_floats()
  int64_t num_channels = 0;  // D
  int64_t num_states = 0;    // N <= kMaxScanStates
};
void selective_scan(Stream& stream, const SelectiveScanParams& params);

inline constexpr int64_t selective_scan_state_floats(int64_t num_channels, int64_t num_states) {
  return num_channels * num_states;
}

}  // namespace quire
