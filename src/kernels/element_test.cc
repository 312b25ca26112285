#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "kernels/api/activation.h"
#include "kernels/api/embedding.h"
#include "kernels/api/norm.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Host;
using kernel_test::kEpsilon;
using kernel_test::random_floats;

const std::vector<int64_t> kSizes = {1, 5, 16, 17, 63, 64, 65, 100, 896, 2049};

TEST(Norm, RmsMatchesReference) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (const int64_t size : kSizes) {
      for (const int64_t tokens : {1, 3, 40}) {
        const auto x = random_floats(1, tokens * size, 3.0f);
        const auto weight = random_floats(2, size, 2.0f);
        const auto residual = random_floats(3, tokens * size);
        auto got = kernel_test::poisoned(tokens * size);
        auto want = got;
        RmsNormParams p{
            .x = x.data(), .weight = weight.data(), .num_tokens = tokens, .hidden_size = size};
        p.out = got.data();
        rms_norm(host.stream, p);
        p.out = want.data();
        ref::rms_norm(p);
        // Results reach sqrt(size) * 2 if one element dominates, and the scale has an error of a
        // few eps.
        const double tolerance = 8 * kEpsilon * 2 * std::sqrt(static_cast<double>(size));
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), tokens * size, tolerance))
            << to_string(isa);

        got = residual;
        want = residual;
        p.out = nullptr;
        p.add_to = got.data();
        rms_norm(host.stream, p);
        p.add_to = want.data();
        ref::rms_norm(p);
        ASSERT_TRUE(
            kernel_test::close(got.data(), want.data(), tokens * size, tolerance + 2 * kEpsilon));
      }
    }
  }
}

TEST(Norm, RowBitsDoNotDependOnBatch) {
  for (const Isa isa : kernel_test::isas()) {
    Host one(isa, 1), three(isa, 3);
    constexpr int64_t kTokens = 50, kSize = 777;
    const auto x = random_floats(1, kTokens * kSize);
    const auto weight = random_floats(2, kSize);
    auto together = kernel_test::poisoned(kTokens * kSize);
    rms_norm(three.stream, {.x = x.data(),
                            .weight = weight.data(),
                            .out = together.data(),
                            .num_tokens = kTokens,
                            .hidden_size = kSize});
    for (int64_t t = 0; t < kTokens; ++t) {
      auto alone = kernel_test::poisoned(kSize);
      rms_norm(one.stream, {.x = x.data() + t * kSize,
                            .weight = weight.data(),
                            .out = alone.data(),
                            .num_tokens = 1,
                            .hidden_size = kSize});
      ASSERT_TRUE(kernel_test::same_bits(alone.data(), together.data() + t * kSize, kSize));
    }
  }
}

TEST(Norm, LayerMatchesReferenceAndMayRunInPlace) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (const int64_t size : kSizes) {
      for (const bool bias : {false, true}) {
        constexpr int64_t kTokens = 5;
        auto x = random_floats(1, kTokens * size, 3.0f);
        for (float& v : x) v += 10.0f;  // a large mean must cancel
        const auto weight = random_floats(2, size);
        const auto b = random_floats(3, size);
        auto want = kernel_test::poisoned(kTokens * size);
        LayerNormParams p{.x = x.data(),
                          .weight = weight.data(),
                          .bias = bias ? b.data() : nullptr,
                          .out = want.data(),
                          .num_tokens = kTokens,
                          .hidden_size = size};
        ref::layer_norm(p);
        p.out = x.data();
        layer_norm(host.stream, p);
        // x - mean has an absolute error of eps * 13. It is divided by a deviation of at least
        // sqrt(eps_norm) = 0.003 when the row is constant (size 1), by about 1.7 otherwise.
        const double deviation = size < 16 ? 0.05 : 1.0;
        ASSERT_TRUE(
            kernel_test::close(x.data(), want.data(), kTokens * size, 60 * kEpsilon / deviation))
            << to_string(isa) << " size " << size;
      }
    }
  }
}

// Tests the relative errors that cpu/element/math-inl.h states, and the values at the edges.
TEST(Activation, ErrorsStayWithinPromise) {
  std::vector<float> x;
  for (float v = -90.0f; v <= 90.0f; v += 0.0173f) x.push_back(v);
  for (float v = 1e-6f; v < 1.0f; v *= 1.31f) {
    x.push_back(v);
    x.push_back(-v);
  }
  const auto n = static_cast<int64_t>(x.size());
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (const Activation kind :
         {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu,
          Activation::kRelu2, Activation::kQuickGelu, Activation::kTanh}) {
      std::vector<float> got(x.size()), want(x.size());
      ActivationParams p{.x = x.data(),
                         .out = got.data(),
                         .activation = kind,
                         .gated = false,
                         .num_tokens = 1,
                         .ffn_size = n};
      activation(host.stream, p);
      p.out = want.data();
      ref::activation(p);
      for (int64_t i = 0; i < n; ++i) {
        // Far below zero the argument of the exponential carries its own rounding (x, x^2 or x^3
        // terms times eps).
        const double growth = kind == Activation::kQuickGelu ? 1.0 + std::abs(x[i])
                              : kind == Activation::kGeluTanh || kind == Activation::kGeluErf
                                  ? 1.0 + x[i] * x[i]
                                  : 1.0;
        const double allowed = 8 * kEpsilon * growth * std::abs(want[i]) + 3e-7 * kEpsilon;
        const double floor = kind == Activation::kGeluErf ? 4 * kEpsilon * std::abs(x[i]) : 1e-35;
        ASSERT_LE(std::abs(double{got[i]} - want[i]), allowed + floor)
            << to_string(isa) << " kind " << static_cast<int>(kind) << " x " << x[i] << " got "
            << got[i] << " want " << want[i];
      }
    }
  }
}

TEST(Activation, XieluMatchesReference) {
  const auto x = random_floats(1, 3 * 1001, 8.0f);
  for (const auto& parameters : {std::array{0.3f, -0.7f}, std::array{30.0f, 2.0f}}) {
    Host host(best_isa(), 2);
    std::vector<float> got(x.size()), want(x.size());
    ActivationParams p{.x = x.data(),
                       .out = got.data(),
                       .activation = Activation::kXielu,
                       .gated = false,
                       .num_tokens = 3,
                       .ffn_size = 1001,
                       .xielu = parameters.data()};
    activation(host.stream, p);
    p.out = want.data();
    ref::activation(p);
    // Below 0 the difference of e^x - 1 and x cancels, so its error is that of x.
    const double size = 64 * (1.0 + std::abs(double{parameters[0]}));
    ASSERT_TRUE(kernel_test::close(got.data(), want.data(), 3 * 1001, 8 * kEpsilon * size));
  }
}

TEST(Activation, GatedMatchesReferenceForOddShapes) {
  for (const Isa isa : kernel_test::isas()) {
    for (const int threads : {1, 3}) {
      Host host(isa, threads);
      for (const auto& [tokens, f] :
           {std::pair<int64_t, int64_t>{1, 1}, {2, 17}, {9, 500}, {3, 4864}}) {
        const auto x = random_floats(1, tokens * 2 * f, 8.0f);
        auto got = kernel_test::poisoned(tokens * f);
        auto want = got;
        ActivationParams p{
            .x = x.data(), .activation = Activation::kSilu, .num_tokens = tokens, .ffn_size = f};
        p.out = got.data();
        activation(host.stream, p);
        p.out = want.data();
        ref::activation(p);
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), tokens * f, 64 * 8 * kEpsilon));
      }
    }
  }
}

TEST(SoftCap, MatchesReferenceAndSaturates) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    auto got = random_floats(1, 10001, 200.0f);
    got[3] = std::numeric_limits<float>::infinity();
    got[4] = -std::numeric_limits<float>::infinity();
    got[5] = 0.0f;
    got[6] = 1e-5f;
    auto want = got;
    soft_cap(host.stream, {.x = got.data(), .cap = 30.0f, .count = 10001});
    ref::soft_cap({.x = want.data(), .cap = 30.0f, .count = 10001});
    ASSERT_TRUE(kernel_test::close(got.data(), want.data(), 10001, 30 * 4 * kEpsilon));
    EXPECT_EQ(got[3], 30.0f);
    EXPECT_EQ(got[4], -30.0f);
    EXPECT_EQ(got[5], 0.0f);
    EXPECT_NEAR(got[6], 1e-5f, 1e-11);
  }
}

TEST(NonFinite, PassesThroughInsteadOfVanishing) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    std::vector<float> x = {kernel_test::kNaN, 1.0f};
    for (const Activation kind : {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf}) {
      std::vector<float> out(2);
      activation(host.stream, {.x = x.data(),
                               .out = out.data(),
                               .activation = kind,
                               .gated = false,
                               .num_tokens = 1,
                               .ffn_size = 2});
      EXPECT_TRUE(std::isnan(out[0])) << to_string(isa);
      EXPECT_FALSE(std::isnan(out[1]));
    }
  }
}

TEST(Embedding, MatchesReferenceForEveryType) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const bool with_positions : {false, true}) {
        constexpr int64_t kVocab = 11, kSize = 77, kTokens = 6;
        auto table = kernel_test::stored(dtype, random_floats(1, kVocab * kSize));
        auto position_table = kernel_test::stored(dtype, random_floats(2, kVocab * kSize));
        const std::vector<TokenId> ids = {0, 10, 3, 3, 7, 1};
        const std::vector<int32_t> positions = {5, 0, 10, 1, 2, 3};
        auto type_table = kernel_test::stored(dtype, random_floats(3, 2 * kSize));
        const std::vector<int32_t> token_types = {0, 0, 1, 1, 0, 1};
        auto got = kernel_test::poisoned(kTokens * kSize);
        auto want = got;
        EmbeddingParams p{.token_ids = ids.data(),
                          .table = table.data(),
                          .positions = positions.data(),
                          .position_table = with_positions ? position_table.data() : nullptr,
                          .token_types = token_types.data(),
                          .type_table = with_positions ? type_table.data() : nullptr,
                          .table_dtype = dtype,
                          .scale = 1.5f,
                          .num_tokens = kTokens,
                          .hidden_size = kSize};
        p.out = got.data();
        embedding(host.stream, p);
        p.out = want.data();
        ref::embedding(p);
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), kTokens * kSize, 4 * kEpsilon))
            << to_string(isa);
      }
    }
  }
}

}  // namespace
}  // namespace quire
