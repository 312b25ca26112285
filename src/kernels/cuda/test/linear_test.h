// Compares linear() on a GPU with ref::linear() in float64, for any kind of weight.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/api/linear.h"
#include "kernels/bench/cases.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire::gpu_test {

// Returns the largest sum |x| |w| over all outputs, to which rounding errors are proportional.
inline double magnitude(const std::vector<float>& x, const std::vector<float>& w, int64_t m,
                        int64_t n, int64_t k) {
  double largest = 0.0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (int64_t l = 0; l < k; ++l) sum += std::abs(double{x[i * k + l]} * w[j * k + l]);
      largest = std::max(largest, sum);
    }
  }
  return largest;
}

class GpuLinearTest : public GpuTest {
 protected:
  // `x` [M, K] has bf16 numbers; `dense` [N, K] are the numbers that the weight encodes. If the
  // kernel rounds its inputs, `seen` are the rounded inputs.
  void expect_reference(const kernel_cases::LinearCase& c, const PackedWeight& weight,
                        const std::vector<float>& x, const std::vector<float>& dense, DType y_type,
                        double tolerance, const std::vector<float>* seen = nullptr) {
    const auto bias = kernel_test::random_floats(3, c.n);
    auto want = rounded(kernel_test::random_floats(4, c.m * c.n));
    LinearParams p{.x = upload_as(DType::kBF16, x),
                   .x_stride = c.k,
                   .weight = &weight,
                   .bias = c.bias ? upload(bias) : nullptr,
                   .y = upload_as(y_type, want),
                   .y_stride = c.n,
                   .accumulate = c.accumulate,
                   .num_rows = c.m,
                   .workspace = poisoned(linear_workspace_bytes(stream(), c.m, weight.spec))};
    linear(stream(), p);
    const auto got = download_floats(p.y, c.m * c.n);
    p.x = seen == nullptr ? x.data() : seen->data();
    p.bias = c.bias ? bias.data() : nullptr;
    p.y = want.data();
    ref::linear(p, dense.data(), DType::kF32);
    ASSERT_TRUE(kernel_test::close(got.data(), want.data(), c.m * c.n, tolerance))
        << c.m << " x " << c.n << " x " << c.k;
  }
};

}  // namespace quire::gpu_test
