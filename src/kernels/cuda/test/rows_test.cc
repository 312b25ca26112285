// Copies and conversions of rows, factors of queries, and norms and gates of groups, on a GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/api/gated_norm.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/rows/copy_rows.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::close;
using kernel_test::random_floats;

class GpuRows : public gpu_test::GpuTest {};

TEST_F(GpuRows, CopiesBetweenTypesAndStrides) {
  constexpr int64_t kTokens = 3, kSize = 37, kStride = 41, kOutStride = 50;
  const auto x = random_floats(1, kTokens * kStride, 3.0f);
  for (const DType from : {DType::kF32, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kBF16}) {
      const auto before = rounded(random_floats(2, kTokens * kOutStride));
      const Activations out = upload_as(to, before);
      copy_rows(stream(), {.x = upload_as(from, x),
                           .x_stride = kStride,
                           .out = out,
                           .out_stride = kOutStride,
                           .num_tokens = kTokens,
                           .size = kSize});
      const auto got = download_floats(out, kTokens * kOutStride);
      const bool rounds = from == DType::kBF16 || to == DType::kBF16;
      const auto values = rounds ? rounded(x) : x;
      for (int64_t i = 0; i < kTokens * kOutStride; ++i) {
        const int64_t column = i % kOutStride;
        const float want = column < kSize ? values[i / kOutStride * kStride + column] : before[i];
        ASSERT_EQ(got[i], want) << i;
      }
    }
  }
}

TEST_F(GpuRows, CopiesZerosAtPositionZero) {
  constexpr int64_t kTokens = 4, kSize = 5;
  const auto x = random_floats(1, kTokens * kSize);
  auto* const out = static_cast<float*>(poisoned(kTokens * kSize * 4));
  copy_rows(stream(), {.x = upload(x),
                       .x_stride = kSize,
                       .out = out,
                       .out_stride = kSize,
                       .positions = upload(std::vector<int32_t>{3, 0, 1, 0}),
                       .num_tokens = kTokens,
                       .size = kSize});
  const auto got = download<float>(out, kTokens * kSize);
  for (int64_t i = 0; i < kTokens * kSize; ++i)
    EXPECT_EQ(got[i], i / kSize % 2 == 1 ? 0.0f : x[i]) << i;
}

// Places more floats than one kernel's parameters hold. The host's values may be freed as soon as
// the call returns.
TEST_F(GpuRows, PlacesFloatsOfTheHost) {
  const auto want = random_floats(1, 700);
  auto* out = static_cast<float*>(poisoned(701 * 4));
  {
    const std::vector<float> values = want;
    place_floats(stream(), {.values = values.data(), .out = out, .count = 700});
  }
  const auto got = download<float>(out, 701);
  EXPECT_TRUE(kernel_test::same_bits(got.data(), want.data(), 700));
  EXPECT_TRUE(std::isnan(got[700]));
}

TEST_F(GpuRows, QueryScalesByPosition) {
  const std::vector<int32_t> positions = {0, 1, 8190, 8191, 8192, 100000};
  auto* out = static_cast<float*>(poisoned(6 * 4));
  query_scales(stream(), {.positions = upload(positions),
                          .beta = 0.1,
                          .span = 8192,
                          .first = 1,
                          .out = out,
                          .num_tokens = 6});
  const auto got = download<float>(out, 6);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], 1.0 + 0.1 * std::log1p((positions[i] + 1) / 8192), 1e-6);
}

TEST_F(GpuRows, GatedNormMatchesReference) {
  const std::vector<float> factor = {1.75f};
  for (const int64_t group : {1, 23, 128, 1100}) {
    for (int variant = 0; variant < 48; ++variant) {
      const DType type = variant / 24 == 0 ? DType::kF32 : DType::kBF16;
      const int64_t size = 2 * group, stride = size + 2, gate_stride = size + 6;
      auto want = rounded(random_floats(1, 3 * stride, 2.0f));
      const auto gate = rounded(random_floats(2, 3 * gate_stride, 3.0f));
      const auto weight = random_floats(3, size, 2.0f);
      GatedNormParams p{.x = upload_as(type, want),
                        .x_stride = stride,
                        .act = static_cast<Gate>(variant % 3),
                        .gate = upload_as(type, gate),
                        .gate_stride = gate_stride,
                        .gate_first = variant / 3 % 2 == 1,
                        .normalizes = variant / 6 % 2 == 1,
                        .weight = variant / 12 % 2 == 1 ? upload(weight) : nullptr,
                        .shared_weight = variant % 2 == 1,
                        .scale = 0.5f,
                        .scale_factor = variant % 5 == 0 ? upload(factor) : nullptr,
                        .num_tokens = 3,
                        .size = size,
                        .group_size = group};
      gated_norm(stream(), p);
      const auto got = download_floats(p.x, 3 * stride);
      p.x = want.data();
      p.gate = gate.data();
      if (p.weight != nullptr) p.weight = weight.data();
      if (p.scale_factor != nullptr) p.scale_factor = factor.data();
      ref::gated_norm(p);
      const double tolerance = type == DType::kF32 ? 2e-4 : 0x1p-4;
      ASSERT_TRUE(close(got.data(), want.data(), 3 * stride, tolerance))
          << "group " << group << " variant " << variant;
    }
  }
}

}  // namespace
}  // namespace quire
