#include <gtest/gtest.h>

#include <cmath>

#include "kernels/api/activation.h"
#include "kernels/api/embedding.h"
#include "kernels/api/norm.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::close;
using kernel_test::random_floats;

class GpuElement : public gpu_test::GpuTest {};

// Allows for rounding of the stored result (2^-9 of its size for bf16), and of sums and
// exponentials in float.
double tolerance(DType out, double magnitude) {
  return magnitude * (out == DType::kBF16 ? 0x1p-8 : 0x1p-19);
}

// Odd sizes use the scalar path, multiples of 8 the vector path; one row is longer than a block.
constexpr int64_t kSizes[] = {7, 64, 250, 4104};

TEST_F(GpuElement, RmsNormOfEveryTypeGathersAndAdds) {
  constexpr int64_t kTokens = 3;
  for (const int64_t size : kSizes) {
    const auto weight = random_floats(2, size, 2.0f);
    const std::vector<int32_t> rows = {4, 0, 4};
    for (const DType x_type : {DType::kF32, DType::kBF16}) {
      for (const DType out_type : {DType::kF32, DType::kBF16}) {
        for (const bool adds : {false, true}) {
          const auto x = rounded(random_floats(1, 5 * size, 3.0f));
          auto want = rounded(random_floats(3, kTokens * size));
          const Activations out = upload_as(out_type, want);
          RmsNormParams p{.x = upload_as(x_type, x),
                          .weight = upload(weight),
                          .out = adds ? Activations() : out,
                          .add_to = adds ? out : Activations(),
                          .rows = upload(rows),
                          .num_tokens = kTokens,
                          .hidden_size = size};
          rms_norm(stream(), p);
          const auto got = download_floats(out, kTokens * size);
          p.x = x.data();
          p.weight = weight.data();
          p.rows = rows.data();
          p.out = want.data();
          p.add_to = adds ? want.data() : nullptr;
          ref::rms_norm(p);
          ASSERT_TRUE(close(got.data(), want.data(), kTokens * size, tolerance(out_type, 8.0)))
              << size << (adds ? " adds" : "");
        }
      }
    }
  }
}

TEST_F(GpuElement, LayerNorm) {
  for (const int64_t size : kSizes) {
    const auto x = random_floats(1, 2 * size, 3.0f);
    const auto weight = random_floats(2, size);
    const auto bias = random_floats(3, size);
    LayerNormParams p{.x = Activations(upload(x)),
                      .weight = upload(weight),
                      .bias = upload(bias),
                      .out = Activations(poisoned(2 * size * 2), DType::kBF16),
                      .num_tokens = 2,
                      .hidden_size = size};
    layer_norm(stream(), p);
    const auto got = download_floats(p.out, 2 * size);
    std::vector<float> want(got.size());
    p.x = x.data();
    p.weight = weight.data();
    p.bias = bias.data();
    p.out = want.data();
    ref::layer_norm(p);
    ASSERT_TRUE(close(got.data(), want.data(), 2 * size, tolerance(DType::kBF16, 4.0))) << size;
  }
}

TEST_F(GpuElement, ActivationsOfEveryKind) {
  constexpr int64_t kTokens = 3;
  for (const int64_t size : {13, 64}) {
    for (const Activation kind :
         {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu,
          Activation::kRelu2, Activation::kQuickGelu, Activation::kTanh}) {
      for (const bool gated : {false, true}) {
        const auto x = rounded(random_floats(1, kTokens * size * 2, 4.0f));
        ActivationParams p{.x = upload_as(DType::kBF16, x),
                           .out = Activations(poisoned(kTokens * size * 2), DType::kBF16),
                           .activation = kind,
                           .gated = gated,
                           .num_tokens = kTokens,
                           .ffn_size = size};
        activation(stream(), p);
        const auto got = download_floats(p.out, kTokens * size);
        std::vector<float> want(got.size());
        p.x = x.data();
        p.out = want.data();
        ref::activation(p);
        ASSERT_TRUE(close(got.data(), want.data(), kTokens * size, tolerance(DType::kBF16, 64.0)))
            << static_cast<int>(kind) << " gated " << gated;
      }
    }
  }
}

TEST_F(GpuElement, Xielu) {
  const std::vector<float> numbers = {0.3f, -0.7f};
  for (const int64_t size : {13, 64}) {
    const auto x = rounded(random_floats(1, 3 * size, 6.0f));
    ActivationParams p{.x = upload_as(DType::kBF16, x),
                       .out = Activations(poisoned(3 * size * 2), DType::kBF16),
                       .activation = Activation::kXielu,
                       .gated = false,
                       .num_tokens = 3,
                       .ffn_size = size,
                       .xielu = upload(numbers)};
    activation(stream(), p);
    const auto got = download_floats(p.out, 3 * size);
    std::vector<float> want(got.size());
    p.x = x.data();
    p.out = want.data();
    p.xielu = numbers.data();
    ref::activation(p);
    ASSERT_TRUE(close(got.data(), want.data(), 3 * size, tolerance(DType::kBF16, 64.0))) << size;
  }
}

TEST_F(GpuElement, EmbeddingOfIdsBehindTheTable) {
  const std::vector<int32_t> ids = {8, 0, 3, 4};
  const auto table = random_floats(1, 4 * 6);  // four rows
  auto* out = static_cast<float*>(poisoned(4 * 6 * 4));
  embedding(stream(), {.token_ids = upload(ids),
                       .table = upload(table),
                       .out = out,
                       .num_rows = 4,
                       .num_tokens = 4,
                       .hidden_size = 6});
  const auto got = download<float>(out, 4 * 6);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], table[(i / 6 == 2 ? 3 * 6 : 0) + i % 6]) << i;
}

TEST_F(GpuElement, EmbeddingOfEveryTableType) {
  constexpr int64_t kVocab = 9;
  const std::vector<int32_t> ids = {8, 0, 3};
  const std::vector<int32_t> positions = {1, 0, 1};
  for (const int64_t size : {5, 32}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto table = rounded(random_floats(1, kVocab * size));
      const auto position_table = rounded(random_floats(2, 2 * size));
      EmbeddingParams p{.token_ids = upload(ids),
                        .table = upload_as(type, table).data(),
                        .positions = upload(positions),
                        .position_table = upload_as(type, position_table).data(),
                        .table_dtype = type,
                        .scale = 1.5f,
                        .out = Activations(static_cast<float*>(poisoned(3 * size * 4))),
                        .num_tokens = 3,
                        .hidden_size = size};
      embedding(stream(), p);
      const auto got = download_floats(p.out, 3 * size);
      std::vector<float> want(got.size());
      p.token_ids = ids.data();
      p.table = table.data();
      p.positions = positions.data();
      p.position_table = position_table.data();
      p.table_dtype = DType::kF32;
      p.out = want.data();
      ref::embedding(p);
      // A bf16 value loses the bits that are below the range of f16.
      ASSERT_TRUE(close(got.data(), want.data(), 3 * size,
                        0x1p-19 + (type == DType::kF16 ? 0x1p-11 : 0.0)));
    }
  }
}

TEST_F(GpuElement, SoftCap) {
  auto x = random_floats(1, 1000, 100.0f);
  float* device_x = upload(x);
  soft_cap(stream(), {.x = device_x, .cap = 30.0f, .count = 1000});
  ref::soft_cap({.x = x.data(), .cap = 30.0f, .count = 1000});
  const auto got = download<float>(device_x, 1000);
  EXPECT_TRUE(close(got.data(), x.data(), 1000, tolerance(DType::kF32, 30.0)));
}

}  // namespace
}  // namespace quire
