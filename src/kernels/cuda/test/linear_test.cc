#include "kernels/cuda/test/linear_test.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/linear/few_rows_linear.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::random_floats;

class GpuLinear : public gpu_test::GpuLinearTest {
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
    for (const DType y_type : {DType::kF32, DType::kBF16}) {
      const PackedWeight weight{shape.spec, packed(shape, source, c.transposed)};
      // Float sums of k products below 1; the result rounded to y's type.
      const double size = std::sqrt(static_cast<double>(c.k)) + 2.0;
      const double tolerance =
          static_cast<double>(c.k) * 0x1p-22 + size * (y_type == DType::kBF16 ? 0x1p-8 : 0.0);
      expect_reference(c, weight, x, dense, y_type, tolerance);
    }
  }
}

// The kernel that linear() may take for a few rows, asked for by name: odd numbers of outputs,
// fewer chunks of K than it has warps, rows apart, biases, sums that are added to.
TEST_F(GpuLinear, FewRowsMatchReference) {
  const struct {
    int64_t m, n, k;
  } shapes[] = {{1, 16, 32}, {1, 33, 96}, {3, 1, 256}, {8, 40, 288}, {9, 17, 1056}, {16, 50, 512}};
  for (const auto& [m, n, k] : shapes) {
    for (const DType y_type : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
      const bool adds = y_type == DType::kF32;
      const int64_t x_stride = k + 8;
      const int64_t y_stride = n + 3;
      const auto x = rounded(random_floats(5, m * x_stride));
      const auto dense = rounded(random_floats(6, n * k));
      const auto bias = random_floats(7, n);
      auto want = rounded(random_floats(8, m * y_stride));
      PackedWeight weight{{.n = n, .k = k, .compute = ComputeType::kBF16}, nullptr};
      weight.data = upload_as(DType::kBF16, dense).data();
      LinearParams p{.x = upload_as(DType::kBF16, x),
                     .x_stride = x_stride,
                     .weight = &weight,
                     .bias = adds ? nullptr : upload(bias),
                     .y = upload_as(y_type, want),
                     .y_stride = y_stride,
                     .accumulate = adds,
                     .num_rows = m};
      ASSERT_TRUE(cuda::fits_few_rows(p));
      cuda::few_rows_linear(stream(), p);
      const auto got = download_floats(p.y, m * y_stride);
      p.x = x.data();
      p.bias = adds ? nullptr : bias.data();
      p.y = want.data();
      ref::linear(p, dense.data(), DType::kF32);
      const double size = std::sqrt(static_cast<double>(k)) + 2.0;
      const double tolerance =
          static_cast<double>(k) * 0x1p-22 + size * (y_type == DType::kBF16 ? 0x1p-8 : 0.0);
      ASSERT_TRUE(kernel_test::close(got.data(), want.data(), m * y_stride, tolerance));
    }
  }
}

}  // namespace
}  // namespace quire
