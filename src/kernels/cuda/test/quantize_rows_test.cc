#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/float8.h"
#include "kernels/api/fp8_support.h"
#include "kernels/cuda/linear/fp8_linear.h"
#include "kernels/cuda/test/linear_test.h"
#include "kernels/testing/quant_test_rows.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::random_floats;

// The quantized form of a row of activations.
struct QuantizedRow {
  float scale = 1.0f;
  std::vector<uint8_t> codes;

  explicit QuantizedRow(const float* x, int64_t k) {
    float largest = 0.0f;
    for (int64_t i = 0; i < k; ++i) largest = std::max(largest, std::abs(x[i]));
    if (largest > 0.0f) scale = largest / 448.0f;
    for (int64_t i = 0; i < k; ++i) codes.push_back(float_to_float8(Float8::kE4M3, x[i] / scale));
  }
};

class GpuQuantizeRows : public gpu_test::GpuLinearTest {
 protected:
  // A GPU that multiplies FP8.
  void SetUp() override { open({.compute_capability = 90}); }
};

TEST_F(GpuQuantizeRows, RoundsAsTheHostDoes) {
  struct Shape {
    int64_t m, k, stride;
  };
  for (const auto& [m, k, stride] : {Shape{1, 16, 16}, Shape{3, 64, 80}, Shape{5, 4096, 4096},
                                     Shape{2, 33, 47}, Shape{7, 2064, 2065}}) {
    SCOPED_TRACE(::testing::Message() << m << " x " << k);
    auto x = rounded(random_floats(5, m * stride, 30.0f));
    std::fill_n(x.begin() + (m - 1) * stride, m > 1 ? k : 0, 0.0f);  // a row of zeros
    const Activations on_device = upload_as(DType::kBF16, x);
    const cuda::Fp8Rows rows = cuda::fp8_rows(poisoned(cuda::fp8_rows_bytes(m, k)), m, k);
    cuda::quantize_rows(stream(), on_device, stride, m, k, rows);
    const auto codes = download<uint8_t>(rows.codes, m * k);
    const auto scales = download<float>(rows.scales, m);
    for (int64_t row = 0; row < m; ++row) {
      const QuantizedRow want(x.data() + row * stride, k);
      EXPECT_EQ(scales[static_cast<size_t>(row)], want.scale);
      EXPECT_TRUE(std::equal(want.codes.begin(), want.codes.end(), codes.begin() + row * k));
    }
  }
}

TEST_F(GpuQuantizeRows, WhatIsNotFiniteStaysSo) {
  std::vector<float> x(2 * 32, 1.0f);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  x[32 + 7] = std::numeric_limits<float>::infinity();
  const cuda::Fp8Rows rows = cuda::fp8_rows(poisoned(cuda::fp8_rows_bytes(2, 32)), 2, 32);
  cuda::quantize_rows(stream(), upload_as(DType::kBF16, x), 32, 2, 32, rows);
  const auto codes = download<uint8_t>(rows.codes, 64);
  EXPECT_EQ(codes[3] & 0x7f, 0x7f);
  EXPECT_EQ(codes[32 + 7] & 0x7f, 0x7f);
}

// Compares products of FP8 with float64 products of the same codes and scales.
TEST_F(GpuQuantizeRows, ProductsMatchReference) {
  int num_cases = 0;
  for (kernel_cases::LinearCase c : kernel_cases::linear_cases()) {
    c.n = (c.n + 15) / 16 * 16;
    c.k = (c.k + 15) / 16 * 16;
    constexpr int64_t kWholeRow = int64_t{1} << 40;
    // The reference computes products of float32, of the numbers that the quantized activations
    // encode.
    WeightSpec spec{.n = c.n,
                    .k = c.k,
                    .dtype = DType::kF8E4M3,
                    .quant = {.bits = 8, .codebook = Codebook::kE4M3, .group_size = kWholeRow}};
    if (!supports_fp8_products(stream(), spec)) continue;
    ++num_cases;
    const kernel_test::QuantSource source(spec, 5);
    std::vector<uint8_t> bytes(static_cast<size_t>(cuda::fp8_weight_layout(spec).num_bytes), 0);
    std::copy(source.codes.begin(), source.codes.end(), bytes.begin());
    std::copy(source.scales.begin(), source.scales.end(),
              bytes.begin() + cuda::fp8_weight_layout(spec).scales_at);
    const PackedWeight weight{spec, upload(bytes)};
    const auto x = rounded(random_floats(2, c.m * c.k));
    // The reference multiplies the quantized activations.
    std::vector<float> seen(x.size());
    for (int64_t row = 0; row < c.m; ++row) {
      const QuantizedRow quantized(x.data() + row * c.k, c.k);
      for (int64_t k = 0; k < c.k; ++k) {
        seen[row * c.k + k] =
            float8_to_float(Float8::kE4M3, quantized.codes[static_cast<size_t>(k)]) *
            quantized.scale;
      }
    }
    const DType y_type = c.m % 2 == 0 ? DType::kF32 : DType::kBF16;
    const auto dense = source.dense();
    const double size = gpu_test::magnitude(seen, dense, c.m, c.n, c.k);
    // Hopper's tensor cores add 32 products of FP8 and the sum so far at once, each cut to a
    // multiple of 2^-13 of the greatest among them: errors of up to 2^-12.3 of the sum of all
    // magnitudes were seen. No product with a float32 sum in between comes closer.
    const double tolerance =
        size * 0x1p-11 + (size + 2.0) * (y_type == DType::kBF16 ? 0x1p-8 : 0x1p-22);
    expect_reference(c, weight, x, dense, y_type, tolerance, &seen);
  }
  if (num_cases == 0) GTEST_SKIP() << "SKIPPED: no products of FP8 on this GPU";
}

TEST(Fp8Products, TakeWeightsOfFp8WithAScalePerOutput) {
  WeightSpec spec{
      .n = 64, .k = 128, .quant = {.bits = 8, .codebook = Codebook::kE4M3, .group_size = 128}};
  EXPECT_TRUE(cuda::fits_fp8_products(spec));
  EXPECT_FALSE(cuda::has_fp8_products(spec));
  const auto refused = [spec](auto change) {
    WeightSpec other = spec;
    change(other);
    return !cuda::fits_fp8_products(other);
  };
  EXPECT_TRUE(refused([](WeightSpec& s) { s.n = 60; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.k = 120, s.quant.group_size = 120; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.group_size = 64; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.codebook = Codebook::kLinear; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.has_column_order = true; }));
}

// Only Hopper has these products; elsewhere such weights are kept in their own format.
TEST(Fp8Products, DependOnTheGpu) {
  WeightSpec spec{.n = 64,
                  .k = 128,
                  .dtype = DType::kF8E4M3,
                  .quant = {.bits = 8, .codebook = Codebook::kE4M3, .group_size = 128}};
  const auto ampere = gpu_test::open_test_device({.compute_capability = 80});
  if (!ampere.ok()) GTEST_SKIP() << "SKIPPED: " << ampere.status().message();
  const int32_t capability = (*ampere)->info().gpu.compute_capability;
  if (capability != 90) {
    EXPECT_FALSE(supports_fp8_products((*ampere)->stream(), spec));
  }
}

}  // namespace
}  // namespace quire
