#include "kernels/cuda/test/linear_test.h"

#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace quire
