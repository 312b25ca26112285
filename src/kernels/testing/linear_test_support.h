// Calls linear() as tests do, with poisoned output and workspace.
#pragma once

#include <vector>

#include "kernels/api/linear.h"
#include "kernels/testing/test_support.h"

namespace quire::kernel_test {

// x: [m, K] dense. With `initial` ([m, N]) the outputs are added to it. Returns [m, N].
inline std::vector<float> run_linear(Stream& stream, const PackedWeight& weight, const float* x,
                                     int64_t m, const float* bias,
                                     const std::vector<float>* initial) {
  const int64_t n = weight.spec.n;
  std::vector<float> y = initial != nullptr ? *initial : poisoned(m * n);
  Buffer workspace(linear_workspace_bytes(stream, m, weight.spec));
  linear(stream, {.x = x,
                  .x_stride = weight.spec.k,
                  .weight = &weight,
                  .bias = bias,
                  .y = y.data(),
                  .y_stride = n,
                  .accumulate = initial != nullptr,
                  .num_rows = m,
                  .workspace = workspace.data()});
  return y;
}

}  // namespace quire::kernel_test
