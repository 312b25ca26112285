#include "kernels/cuda/ring/tensor_maps.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cuda/linear/dense_linear.h"
#include "kernels/cuda/test/linear_test.h"

namespace quire::cuda {
namespace {

void expect_same(const ptx::TensorMap& got, const ptx::TensorMap& want) {
  EXPECT_EQ(got.base, want.base);
  EXPECT_EQ(got.sizes, want.sizes);
  EXPECT_EQ(got.strides, want.strides);
  EXPECT_EQ(got.box_rows, want.box_rows);
}

// Holds also for a table that is too small for all shapes.
TEST(TensorMapTable, GivesTheMapOfEachShape) {
  std::mt19937 rng(1);
  const auto below = [&rng](uint32_t count) { return static_cast<int32_t>(rng() % count); };
  std::vector<MatrixMapShape> shapes;
  for (int i = 0; i < 64; ++i) {
    shapes.push_back({.base = reinterpret_cast<void*>(uintptr_t{4096} * (1 + rng() % 8)),
                      .rows = 1 + below(3),
                      .columns = 64 * (1 + below(2)),
                      .row_stride = 8 * (16 + below(2)),
                      .box_rows = 8 * (1 + below(4))});
  }
  for (const size_t num_places : {1, 16, 4096}) {
    TensorMapTable<MatrixMapShape> table(num_places);
    for (int i = 0; i < 2000; ++i) {
      const MatrixMapShape& shape = shapes[rng() % shapes.size()];
      ptx::TensorMap want;
      ASSERT_TRUE(encode(shape, &want));
      const ptx::TensorMap* const got = table.find(shape);
      ASSERT_NE(got, nullptr);
      expect_same(*got, want);
    }
    if (num_places == 4096) {
      EXPECT_LE(table.num_encoded(), 80);
    }
  }
}

TEST(TensorMapTable, RefusesWhatIsNotMappableEachTime) {
  TensorMapTable<MatrixMapShape> table(16);
  const MatrixMapShape crooked{.rows = 8, .columns = 64, .row_stride = 65, .box_rows = 8};
  EXPECT_EQ(table.find(crooked), nullptr);
  EXPECT_EQ(table.find(crooked), nullptr);
}

class GpuTensorMaps : public gpu_test::GpuLinearTest {
 protected:
  void SetUp() override { open_hopper(); }
};

// Maps that share a place in the table, which depends on addresses, are encoded again.
TEST_F(GpuTensorMaps, AreEncodedOnceForAWeightAndANumberOfRows) {
  constexpr int64_t kSize = 64;
  const PackedWeight weight{
      {.n = kSize, .k = kSize, .compute = ComputeType::kBF16},
      upload_as(DType::kBF16, std::vector<float>(kSize * kSize, 1.0f)).data()};
  const Activations x = upload_as(DType::kBF16, std::vector<float>(kSize * kSize, 1.0f));
  const Activations y = upload_as(DType::kF32, std::vector<float>(kSize * kSize));
  const auto encoded_by_all_numbers_of_rows = [&] {
    const int64_t before = TensorMaps::of(stream()).num_encoded();
    for (int64_t rows = 4; rows <= kSize; rows += 4) {
      dense_linear(stream(), {.x = x,
                              .x_stride = kSize,
                              .weight = &weight,
                              .y = y,
                              .y_stride = kSize,
                              .num_rows = rows});
      EXPECT_TRUE(device_->synchronize().ok());
    }
    return TensorMaps::of(stream()).num_encoded() - before;
  };
  const int64_t first = encoded_by_all_numbers_of_rows();
  EXPECT_GE(first, 16);
  EXPECT_LT(4 * encoded_by_all_numbers_of_rows(), first);
}

}  // namespace
}  // namespace quire::cuda
