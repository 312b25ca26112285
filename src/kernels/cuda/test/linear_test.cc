#include "kernels/api/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cases.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::random_floats;

class GpuLinear : public gpu_test::GpuTest {
 protected:
  // Memory of bf16 rows of `weight`, packed in two parts.
  void* packed(const PackedWeight& shape, const std::vector<float>& dense, bool transposed) {
    PackedWeight weight{shape.spec, poisoned(shape.spec.n * shape.spec.k * 2)};
    const int64_t half = transposed ? shape.spec.n : shape.spec.n / 2;
    pack_weight_rows(stream(), weight,
                     {.rows = dense.data(),
                      .dtype = DType::kF32,
                      .first_row = 0,
                      .num_rows = half,
                      .transposed = transposed});
    if (half < shape.spec.n) {
      pack_weight_rows(stream(), weight,
                       {.rows = dense.data() + half * shape.spec.k,
                        .dtype = DType::kF32,
                        .first_row = half,
                        .num_rows = shape.spec.n - half});
    }
    return weight.data;
  }
};

TEST_F(GpuLinear, MatchesReference) {
  for (const kernel_cases::LinearCase& c : kernel_cases::linear_cases()) {
    const PackedWeight shape{{.n = c.n, .k = c.k, .compute = ComputeType::kBF16}, nullptr};
    const auto dense = rounded(random_floats(1, c.n * c.k));
    std::vector<float> source(dense.size());  // as the checkpoint has it
    for (int64_t n = 0; n < c.n; ++n) {
      for (int64_t k = 0; k < c.k; ++k)
        source[c.transposed ? k * c.n + n : n * c.k + k] = dense[n * c.k + k];
    }
    const auto x = rounded(random_floats(2, c.m * c.k));
    const auto bias = random_floats(3, c.n);
    for (const DType y_type : {DType::kF32, DType::kBF16}) {
      auto want = rounded(random_floats(4, c.m * c.n));
      const PackedWeight weight{shape.spec, packed(shape, source, c.transposed)};
      LinearParams p{.x = upload_as(DType::kBF16, x),
                     .x_stride = c.k,
                     .weight = &weight,
                     .bias = c.bias ? upload(bias) : nullptr,
                     .y = upload_as(y_type, want),
                     .y_stride = c.n,
                     .accumulate = c.accumulate,
                     .num_rows = c.m,
                     .workspace = poisoned(linear_workspace_bytes(stream(), c.m, shape.spec))};
      linear(stream(), p);
      const auto got = download_floats(p.y, c.m * c.n);
      p.x = x.data();
      p.bias = c.bias ? bias.data() : nullptr;
      p.y = want.data();
      ref::linear(p, dense.data(), DType::kF32);
      // Float sums of k products below 1; the result rounded to y's type.
      const double size = std::sqrt(static_cast<double>(c.k)) + 2.0;
      const double tolerance =
          static_cast<double>(c.k) * 0x1p-22 + size * (y_type == DType::kBF16 ? 0x1p-8 : 0.0);
      ASSERT_TRUE(kernel_test::close(got.data(), want.data(), c.m * c.n, tolerance))
          << c.m << " x " << c.n << " x " << c.k;
    }
  }
}

}  // namespace
}  // namespace quire
