#include "kernels/api/packed/unpack.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::random_floats;

// The product with unit vector k is column k of a weight.
TEST(UnpackWeightRow, IsWhatProductsMultiplyBy) {
  const WeightSpec kinds[] = {{.dtype = DType::kF32, .compute = ComputeType::kF32},
                              {.dtype = DType::kF16, .compute = ComputeType::kF32},
                              {.dtype = DType::kBF16, .compute = ComputeType::kF32},
                              {.dtype = DType::kBF16, .compute = ComputeType::kBF16},
                              {.dtype = DType::kI8, .compute = ComputeType::kInt8}};
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (WeightSpec spec : kinds) {
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {33, 7}, {70, 67}}) {
        SCOPED_TRACE(fmt::format("{} {} {}x{}", to_string(isa), to_string(spec.dtype), n, k));
        spec.n = n;
        spec.k = k;
        const std::vector<float> rows = random_floats(3, n * k);
        Buffer memory(packed_weight_bytes(spec));
        const PackedWeight weight{spec, memory.data()};
        pack_weight_rows(host.stream, weight,
                         {.rows = rows.data(), .dtype = DType::kF32, .num_rows = n});
        std::vector<float> units(static_cast<size_t>(k * k)), columns(static_cast<size_t>(k * n));
        for (int64_t i = 0; i < k; ++i) units[static_cast<size_t>(i * k + i)] = 1.0f;
        Buffer workspace(linear_workspace_bytes(host.stream, k, spec));
        linear(host.stream, {.x = units.data(),
                             .x_stride = k,
                             .weight = &weight,
                             .y = columns.data(),
                             .y_stride = n,
                             .num_rows = k,
                             .workspace = workspace.data()});
        std::vector<float> row(static_cast<size_t>(k));
        for (int64_t i = 0; i < n; ++i) {
          unpack_weight_row(isa, weight, i, row.data());
          for (int64_t j = 0; j < k; ++j) {
            const float want = columns[static_cast<size_t>(j * n + i)];
            EXPECT_NEAR(row[static_cast<size_t>(j)], want, 1e-6f * std::abs(want)) << i << " " << j;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
