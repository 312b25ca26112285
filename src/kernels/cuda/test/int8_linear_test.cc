// Products of int8 on a GPU: activations are rounded as on the host, sums are exact, and a row's
// bits do not depend on the other rows.
#include "kernels/cuda/linear/int8_linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/test/linear_test.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::random_floats;

constexpr int64_t kWholeRow = int64_t{1} << 40;

WeightSpec int8_spec(int64_t n, int64_t k) {
  return {.n = n,
          .k = k,
          .dtype = DType::kI8,
          .quant = {.bits = 8, .offset = 128, .group_size = kWholeRow}};
}

// Random codes and scales, and the numbers that they encode.
struct Int8Weight {
  std::vector<uint8_t> bytes;
  std::vector<float> dense;

  Int8Weight(const WeightSpec& spec, uint64_t seed)
      : bytes(static_cast<size_t>(cuda::fp8_weight_layout(spec).num_bytes)) {
    const auto values = random_floats(seed, spec.n * spec.k, 127.0f);
    auto* codes = reinterpret_cast<int8_t*>(bytes.data());
    auto* scales = reinterpret_cast<float*>(bytes.data() + cuda::fp8_weight_layout(spec).scales_at);
    for (int64_t i = 0; i < spec.n * spec.k; ++i) {
      codes[i] = static_cast<int8_t>(std::lrint(values[i]));
      const int64_t row = i / spec.k;
      scales[row] = 0.001f * static_cast<float>(1 + row % 5);
      dense.push_back(static_cast<float>(codes[i]) * scales[row]);
    }
  }
};

// Returns the quantized form of a row of activations.
std::vector<float> quantized_row(const float* x, int64_t k, float& scale) {
  float largest = 0.0f;
  for (int64_t i = 0; i < k; ++i) largest = std::max(largest, std::abs(x[i]));
  scale = largest == 0.0f ? 1.0f : largest / 127.0f;
  std::vector<float> codes;
  for (int64_t i = 0; i < k; ++i) codes.push_back(std::rint(x[i] / scale));
  return codes;
}

class GpuInt8Linear : public gpu_test::GpuLinearTest {};

TEST_F(GpuInt8Linear, RoundsActivationsAsTheHostDoes) {
  constexpr int64_t kRows = 5, kK = 48, kStride = 53;
  auto x = rounded(random_floats(5, kRows * kStride, 30.0f));
  std::fill_n(x.begin() + kStride, kK, 0.0f);
  x[3 * kStride + 7] = std::numeric_limits<float>::quiet_NaN();
  x[4 * kStride + 7] = -std::numeric_limits<float>::infinity();
  const cuda::Fp8Rows rows = cuda::fp8_rows(poisoned(cuda::fp8_rows_bytes(kRows, kK)), kRows, kK);
  cuda::quantize_int8_rows(stream(), upload_as(DType::kBF16, x), kStride, kRows, kK, rows);
  const auto codes = download<int8_t>(rows.codes, kRows * kK);
  const auto scales = download<float>(rows.scales, kRows);
  for (int64_t row = 0; row < 3; ++row) {
    float scale;
    const auto want = quantized_row(x.data() + row * kStride, kK, scale);
    EXPECT_EQ(scales[row], scale);
    for (int64_t i = 0; i < kK; ++i) EXPECT_EQ(static_cast<float>(codes[row * kK + i]), want[i]);
  }
  EXPECT_TRUE(std::isnan(scales[3]) && std::isnan(scales[4]));
}

TEST_F(GpuInt8Linear, MatchesReference) {
  std::vector<kernel_cases::LinearCase> cases = kernel_cases::linear_cases();
  cases.push_back({33, 65, 400, true});
  for (kernel_cases::LinearCase c : cases) {
    c.k = (c.k + 15) / 16 * 16;
    const WeightSpec spec = int8_spec(c.n, c.k);
    ASSERT_TRUE(cuda::fits_int8_products(spec));
    const Int8Weight source(spec, 5);
    const PackedWeight weight{spec, upload(source.bytes)};
    const auto x = rounded(random_floats(2, c.m * c.k));
    std::vector<float> seen;
    for (int64_t row = 0; row < c.m; ++row) {
      float scale;
      for (const float code : quantized_row(x.data() + row * c.k, c.k, scale))
        seen.push_back(code * scale);
    }
    const DType y_type = c.m % 2 == 0 ? DType::kF32 : DType::kBF16;
    const double size = gpu_test::magnitude(seen, source.dense, c.m, c.n, c.k);
    const double tolerance = (size + 2.0) * (y_type == DType::kBF16 ? 0x1p-8 : 0x1p-20);
    expect_reference(c, weight, x, source.dense, y_type, tolerance, &seen);
  }
}

// A row has the same bits alone and in every place of a tile among others.
TEST_F(GpuInt8Linear, BitsDoNotDependOnTheNumberOfRows) {
  const WeightSpec spec = int8_spec(70, 272);
  const Int8Weight source(spec, 5);
  const PackedWeight weight{spec, upload(source.bytes)};
  constexpr int64_t kRows = 67;
  const auto x = rounded(random_floats(2, kRows * spec.k));
  const auto run = [&](int64_t first, int64_t count) {
    const std::vector<float> rows(x.begin() + first * spec.k, x.begin() + (first + count) * spec.k);
    const Activations y(poisoned(count * spec.n * 4), DType::kF32);
    linear(stream(), {.x = upload_as(DType::kBF16, rows),
                      .x_stride = spec.k,
                      .weight = &weight,
                      .y = y,
                      .y_stride = spec.n,
                      .num_rows = count,
                      .workspace = poisoned(linear_workspace_bytes(stream(), count, spec))});
    return download_floats(y, count * spec.n);
  };
  const auto all = run(0, kRows);
  for (const int64_t row : {0, 9, 31, 32, 66}) {
    const auto alone = run(row, 1);
    EXPECT_TRUE(kernel_test::same_bits(alone.data(), all.data() + row * spec.n, spec.n)) << row;
  }
}

TEST(Int8Products, TakeWeightsOfInt8WithAScalePerOutput) {
  WeightSpec spec = int8_spec(60, 128);
  EXPECT_TRUE(cuda::fits_int8_products(spec));
  const auto refused = [spec](auto change) {
    WeightSpec other = spec;
    change(other);
    return !cuda::fits_int8_products(other);
  };
  EXPECT_TRUE(refused([](WeightSpec& s) { s.k = 120; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.group_size = 64; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.bits = 4; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.offset = 0; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.codebook = Codebook::kE4M3; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.zero_kind = ZeroKind::kInteger; }));
  EXPECT_TRUE(refused([](WeightSpec& s) { s.quant.has_column_order = true; }));
}

}  // namespace
}  // namespace quire
