// Products of int8 by int8. Sums are integers, so every instruction set must give the reference's
// bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/bench/cases.h"
#include "kernels/testing/linear_test_support.h"

namespace quire {
namespace {

using kernel_cases::LinearCase;
using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::random_floats;
using kernel_test::run_linear;

struct Int8Weight {
  // Packs codes over all of [-128, 127], in two parts.
  Int8Weight(Stream& stream, int64_t n, int64_t k)
      : codes(static_cast<size_t>(n * k)),
        scales(random_floats(4, n, 0.01f)),
        memory(packed_weight_bytes({n, k, DType::kI8, ComputeType::kInt8})),
        packed{{n, k, DType::kI8, ComputeType::kInt8}, memory.data()} {
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<int8_t>(philox4x32(9, {static_cast<uint32_t>(i), 0, 0, 0})[0]);
    }
    pack(stream);
  }
  void pack(Stream& stream) {
    const int64_t n = packed.spec.n;
    for (const auto& [begin, end] : {std::pair{n / 3, n}, std::pair{int64_t{0}, n / 3}}) {
      pack_weight_rows(stream, packed,
                       {.rows = codes.data() + begin * packed.spec.k,
                        .dtype = DType::kI8,
                        .first_row = begin,
                        .num_rows = end - begin,
                        .scales = scales.data() + begin});
    }
  }
  std::vector<int8_t> codes;
  std::vector<float> scales;
  Buffer memory;
  PackedWeight packed;
};

// Computes linear() on finite rows, with the quantization in float by its definition and sums in 64
// bits.
std::vector<float> reference(const Int8Weight& weight, const float* x, int64_t m, const float* bias,
                             const std::vector<float>* initial) {
  const auto [n, k] = std::pair{weight.packed.spec.n, weight.packed.spec.k};
  std::vector<float> y(static_cast<size_t>(m * n));
  std::vector<int64_t> codes(static_cast<size_t>(k));
  for (int64_t row = 0; row < m; ++row) {
    float most = 0.0f;
    for (int64_t i = 0; i < k; ++i) most = std::max(most, std::abs(x[row * k + i]));
    const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
    for (int64_t i = 0; i < k; ++i) codes[i] = std::lrint(x[row * k + i] * inverse);
    for (int64_t column = 0; column < n; ++column) {
      int64_t sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += codes[i] * weight.codes[column * k + i];
      float result = static_cast<float>(sum) * (most / 127.0f * weight.scales[column]);
      if (bias != nullptr) result += bias[column];
      if (initial != nullptr) result += (*initial)[row * n + column];
      y[row * n + column] = result;
    }
  }
  return y;
}

TEST(LinearInt8, IsExactOnEveryIsa) {
  for (const Isa isa : kernel_test::isas()) {
    for (const int threads : {1, 3}) {
      Host host(isa, threads);
      for (const LinearCase& c : kernel_cases::linear_cases()) {
        Int8Weight weight(host.stream, c.n, c.k);
        const auto x = random_floats(1, c.m * c.k, 3.0f);
        const auto bias = random_floats(2, c.n);
        const auto initial = random_floats(3, c.m * c.n);
        const float* b = c.bias ? bias.data() : nullptr;
        const auto* before = c.accumulate ? &initial : nullptr;
        const auto got = run_linear(host.stream, weight.packed, x.data(), c.m, b, before);
        const auto want = reference(weight, x.data(), c.m, b, before);
        ASSERT_TRUE(kernel_test::same_bits(got.data(), want.data(), c.m * c.n))
            << to_string(isa) << " m " << c.m << " n " << c.n << " k " << c.k;
      }
    }
  }
}

TEST(LinearInt8, GroupsOfBlocksAreExact) {
  constexpr int64_t kM = 547, kN = 265, kK = 1100;
  const auto x = random_floats(5, kM * kK);
  for (const Isa isa : kernel_test::isas()) {
    if (isa == Isa::kPortable) continue;  // slow here, and its rows are cut at 4
    Host host(isa, 1);
    Int8Weight weight(host.stream, kN, kK);
    const auto got = run_linear(host.stream, weight.packed, x.data(), kM, nullptr, nullptr);
    for (int64_t row = 0; row < kM; row += 42) {
      const auto want = reference(weight, x.data() + row * kK, 1, nullptr, nullptr);
      ASSERT_TRUE(kernel_test::same_bits(got.data() + row * kN, want.data(), kN))
          << to_string(isa) << " row " << row;
    }
  }
}

TEST(LinearInt8, EveryNumberOfRowsIsExact) {
  constexpr int64_t kMaxRows = 50, kN = 70, kK = 600;
  const auto x = random_floats(10, kMaxRows * kK);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 1);
    Int8Weight weight(host.stream, kN, kK);
    const auto want = reference(weight, x.data(), kMaxRows, nullptr, nullptr);
    for (int64_t m = 1; m <= kMaxRows; ++m) {
      const auto got = run_linear(host.stream, weight.packed, x.data(), m, nullptr, nullptr);
      ASSERT_TRUE(kernel_test::same_bits(got.data(), want.data(), m * kN))
          << to_string(isa) << " m " << m;
    }
  }
}

TEST(LinearInt8, ChunksOfKAreExact) {
  constexpr int64_t kM = 29, kN = 70, kK = 4300;
  const auto x = random_floats(9, kM * kK);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 2);
    Int8Weight weight(host.stream, kN, kK);
    const auto got = run_linear(host.stream, weight.packed, x.data(), kM, nullptr, nullptr);
    const auto want = reference(weight, x.data(), kM, nullptr, nullptr);
    ASSERT_TRUE(kernel_test::same_bits(got.data(), want.data(), kM * kN)) << to_string(isa);
  }
}

TEST(LinearInt8, TheLargestSumsFit) {
  constexpr int64_t kN = 2, kK = kMaxInt8K;
  std::vector<float> x(2 * kK, 1.0f);  // a row of codes 127, one of -127
  std::fill(x.begin() + kK, x.end(), -1.0f);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    Int8Weight weight(host.stream, kN, kK);
    std::fill(weight.codes.begin(), weight.codes.begin() + kK, int8_t{-128});
    std::fill(weight.codes.begin() + kK, weight.codes.end(), int8_t{127});
    weight.pack(host.stream);
    const auto got = run_linear(host.stream, weight.packed, x.data(), 2, nullptr, nullptr);
    const auto want = reference(weight, x.data(), 2, nullptr, nullptr);
    EXPECT_TRUE(kernel_test::same_bits(got.data(), want.data(), 2 * kN)) << to_string(isa);
  }
}

TEST(LinearInt8, RowsThatAreNotFiniteGiveNanAndOnlyThey) {
  constexpr int64_t kM = 5, kN = 35, kK = 70;
  auto x = random_floats(6, kM * kK);
  x[1 * kK + 69] = kernel_test::kNaN;
  x[2 * kK + 3] = std::numeric_limits<float>::infinity();
  std::fill(x.begin() + 3 * kK, x.begin() + 4 * kK, 0.0f);
  x[4 * kK] = std::numeric_limits<float>::denorm_min();
  std::fill(x.begin() + 4 * kK + 1, x.end(), 0.0f);
  const auto bias = random_floats(7, kN);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    Int8Weight weight(host.stream, kN, kK);
    const auto y = run_linear(host.stream, weight.packed, x.data(), kM, bias.data(), nullptr);
    const auto first = reference(weight, x.data(), 1, bias.data(), nullptr);
    EXPECT_TRUE(kernel_test::same_bits(y.data(), first.data(), kN)) << to_string(isa);
    for (int64_t n = 0; n < kN; ++n) {
      EXPECT_TRUE(std::isnan(y[1 * kN + n]) && std::isnan(y[2 * kN + n])) << to_string(isa);
      EXPECT_EQ(y[3 * kN + n], bias[n]) << to_string(isa);
      EXPECT_EQ(y[4 * kN + n], bias[n]) << to_string(isa);
    }
  }
}

TEST(LinearInt8, FloatRowsAreRoundedWithAScaleEach) {
  constexpr int64_t kN = 37, kK = 101;
  Host host(Isa::kPortable);
  auto values = random_floats(8, kN * kK);
  std::fill(values.begin() + 4 * kK, values.begin() + 5 * kK, 0.0f);
  const WeightSpec spec{kN, kK, DType::kI8, ComputeType::kInt8};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const bool transposed : {false, true}) {
      std::vector<float> source(values.size());
      for (int64_t i = 0; i < kN * kK; ++i) {
        source[transposed ? i % kK * kN + i / kK : i] = values[i];
      }
      Buffer rows = kernel_test::stored(dtype, source);
      Buffer memory(packed_weight_bytes(spec));
      const PackedWeight weight{spec, memory.data()};
      pack_weight_rows(
          host.stream, weight,
          {.rows = rows.data(), .dtype = dtype, .num_rows = kN, .transposed = transposed});
      for (int64_t k = 0; k < kK; k += 9) {  // a unit vector picks out column k of W
        std::vector<float> x(kK, 0.0f);
        x[k] = 1.0f;
        const auto y = run_linear(host.stream, weight, x.data(), 1, nullptr, nullptr);
        for (int64_t n = 0; n < kN; ++n) {
          float most = 0.0f;
          for (int64_t i = 0; i < kK; ++i) most = std::max(most, std::abs(values[n * kK + i]));
          const float half_step = most / 254.0f;
          const float storing = dtype == DType::kBF16 ? 0.004f : 0.0005f;  // of the source itself
          EXPECT_NEAR(y[n], values[n * kK + k], half_step + storing);
        }
      }
    }
  }
}

// A row of W with NaN or infinity gives NaN, and only that row does. A 0 beside numbers so small that
// the inverse of their scale is infinite stays 0.
TEST(LinearInt8, WeightsThatAreNotFiniteGiveNan) {
  constexpr int64_t kN = 37, kK = 101;
  Host host(Isa::kPortable);
  auto values = random_floats(8, kN * kK);
  std::fill(values.begin() + 9 * kK, values.begin() + 10 * kK, 0.0f);
  values[9 * kK] = 1e-38f;
  const WeightSpec spec{kN, kK, DType::kI8, ComputeType::kInt8};
  const auto product = [&](const std::vector<float>& rows) {
    Buffer memory(packed_weight_bytes(spec));
    const PackedWeight weight{spec, memory.data()};
    pack_weight_rows(host.stream, weight,
                     {.rows = rows.data(), .dtype = DType::kF32, .num_rows = kN});
    const std::vector<float> x(kK, 1.0f);
    return run_linear(host.stream, weight, x.data(), 1, nullptr, nullptr);
  };
  const auto before = product(values);
  EXPECT_NEAR(before[9], 1e-38f, 1e-39f);
  values[2 * kK + 3] = kernel_test::kNaN;
  values[5 * kK] = -std::numeric_limits<float>::infinity();
  const auto after = product(values);
  for (const int64_t n : {2, 5}) EXPECT_TRUE(std::isnan(after[n])) << n;
  for (int64_t n = 0; n < kN; ++n) {
    if (n == 2 || n == 5) continue;
    EXPECT_EQ(after[n], before[n]) << n;
  }
}

}  // namespace
}  // namespace quire
