#include "kernels/api/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/rng.h"
#include "kernels/bench/cases.h"
#include "kernels/testing/linear_test_support.h"

namespace quire {
namespace {

using kernel_cases::LinearCase;
using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::kEpsilon;
using kernel_test::random_floats;
using kernel_test::run_linear;

// A weight with its dense source, packed in two parts as fused projections are.
struct Weight {
  Weight(Stream& stream, int64_t n, int64_t k, DType dtype, ComputeType compute,
         bool transposed = false)
      : values(random_floats(7, n * k)),
        dense(kernel_test::stored(dtype, values)),
        packed_memory(packed_weight_bytes({n, k, dtype, compute})),
        packed{{n, k, dtype, compute}, packed_memory.data()} {
    const int64_t first = n / 3;
    for (const auto& [begin, end] : {std::pair{int64_t{0}, first}, std::pair{first, n}}) {
      std::vector<float> part(static_cast<size_t>((end - begin) * k));
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t i = 0; i < k; ++i) {
          const int64_t at = transposed ? i * (end - begin) + row - begin : (row - begin) * k + i;
          part[at] = values[row * k + i];
        }
      }
      Buffer source = kernel_test::stored(dtype, part);
      pack_weight_rows(stream, packed,
                       {.rows = source.data(),
                        .dtype = dtype,
                        .first_row = begin,
                        .num_rows = end - begin,
                        .transposed = transposed});
    }
  }
  std::vector<float> values;
  Buffer dense;
  Buffer packed_memory;
  PackedWeight packed;
};

struct Types {
  DType dtype;
  ComputeType compute;
};
const std::vector<Types> kTypes = {
    {DType::kF32, ComputeType::kF32},  {DType::kBF16, ComputeType::kF32},
    {DType::kF16, ComputeType::kF32},  {DType::kBF16, ComputeType::kBF16},
    {DType::kF16, ComputeType::kBF16}, {DType::kF32, ComputeType::kBF16}};

// |x| and |w| are below 1. A float sum of K such products, each step rounded, is off by eps *
// sqrt(K) * (largest partial sum) when the roundings are independent; partial sums of random signs
// reach about sqrt(K). Factor 8 for the tail, plus the rounding of the result, bias and residual.
double tolerance(int64_t k) { return kEpsilon * (8.0 * static_cast<double>(k) / 3.0 + 16.0); }

TEST(Linear, MatchesReferenceOnEveryIsaAndType) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (const Types types : kTypes) {
      for (const LinearCase& c : kernel_cases::linear_cases()) {
        SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << to_string(types.dtype)
                                          << " compute " << static_cast<int>(types.compute) << " m "
                                          << c.m << " n " << c.n << " k " << c.k);
        Weight weight(host.stream, c.n, c.k, types.dtype, types.compute, c.transposed);
        const auto x = random_floats(1, c.m * c.k);
        const auto bias = random_floats(2, c.n);
        const auto initial = random_floats(3, c.m * c.n);
        const auto got =
            run_linear(host.stream, weight.packed, x.data(), c.m, c.bias ? bias.data() : nullptr,
                       c.accumulate ? &initial : nullptr);
        auto want = initial;
        ref::linear({.x = x.data(),
                     .x_stride = c.k,
                     .weight = &weight.packed,
                     .bias = c.bias ? bias.data() : nullptr,
                     .y = want.data(),
                     .y_stride = c.n,
                     .accumulate = c.accumulate,
                     .num_rows = c.m},
                    weight.dense.data(), types.dtype);
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), c.m * c.n, tolerance(c.k)));
      }
    }
  }
}

TEST(Linear, ConvertsRowsOfAnotherTypeWhilePacking) {
  Host host(Isa::kPortable);
  constexpr int64_t kN = 40, kK = 37;
  const auto values = random_floats(5, kN * kK);
  for (const DType packed_type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const DType source_type : {DType::kF32, DType::kBF16, DType::kF16}) {
      Buffer source = kernel_test::stored(source_type, values);
      const WeightSpec spec{kN, kK, packed_type, ComputeType::kF32};
      Buffer memory(packed_weight_bytes(spec));
      const PackedWeight weight{spec, memory.data()};
      pack_weight_rows(host.stream, weight,
                       {.rows = source.data(), .dtype = source_type, .num_rows = kN});
      for (int64_t k = 0; k < kK; ++k) {  // a unit vector picks out column k of W exactly
        std::vector<float> x(kK, 0.0f);
        x[k] = 1.0f;
        const auto y = run_linear(host.stream, weight, x.data(), 1, nullptr, nullptr);
        for (int64_t n = 0; n < kN; ++n) {
          float want = ref::load_element(source.data(), source_type, n * kK + k);
          if (packed_type == DType::kBF16) want = to_float(to_bfloat16(want));
          if (packed_type == DType::kF16) want = to_float(to_float16(want));
          ASSERT_EQ(y[n], want) << to_string(source_type) << " to " << to_string(packed_type);
        }
      }
    }
  }
}

// Law L4: a row's bits depend on the row and the weight alone.
TEST(Linear, RowBitsDoNotDependOnBatchOrThreads) {
  constexpr int64_t kN = 200, kK = 333;
  constexpr int64_t kMaxRows = 67;
  const auto x = random_floats(11, kMaxRows * kK);
  const auto bias = random_floats(12, kN);
  for (const Isa isa : kernel_test::isas()) {
    Host hosts[] = {Host(isa, 1), Host(isa, 2), Host(isa, 3)};
    for (const Types types : kTypes) {
      Weight weight(hosts[0].stream, kN, kK, types.dtype, types.compute);
      std::vector<float> alone;
      for (int64_t row = 0; row < kMaxRows; ++row) {
        const auto y = run_linear(hosts[0].stream, weight.packed, x.data() + row * kK, 1,
                                  bias.data(), nullptr);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (int64_t m = 2; m <= kMaxRows; m += m < 30 ? 1 : 12) {
        Host& host = hosts[m % 3];
        const int64_t first = (m * 5) % (kMaxRows - m + 1);
        const auto y =
            run_linear(host.stream, weight.packed, x.data() + first * kK, m, bias.data(), nullptr);
        ASSERT_TRUE(kernel_test::same_bits(y.data(), alone.data() + first * kN, m * kN))
            << to_string(isa) << " " << to_string(types.dtype) << " m " << m;
      }
    }
  }
}

// There are more rows and columns than a group of the tile kernels has, and more k than a chunk
// has, none of them a round number. Rows that are computed alone and with 999 others are the same,
// and right.
TEST(Linear, GroupsOfBlocksGiveTheBitsOfSingleRows) {
  constexpr int64_t kM = 1000, kN = 275, kK = 590;
  const auto x = random_floats(21, kM * kK);
  const auto bias = random_floats(22, kN);
  for (const Isa isa : kernel_test::isas()) {
    if (isa == Isa::kPortable) continue;  // slow here, and its rows are cut at 4
    Host host(isa, 1);
    Weight weight(host.stream, kN, kK, DType::kBF16, ComputeType::kBF16);
    const auto all = run_linear(host.stream, weight.packed, x.data(), kM, bias.data(), nullptr);
    for (int64_t row = 0; row < kM; row += 37) {
      const auto alone =
          run_linear(host.stream, weight.packed, x.data() + row * kK, 1, bias.data(), nullptr);
      ASSERT_TRUE(kernel_test::same_bits(all.data() + row * kN, alone.data(), kN))
          << to_string(isa) << " row " << row;
      std::vector<float> want(kN);
      ref::linear({.x = x.data() + row * kK,
                   .x_stride = kK,
                   .weight = &weight.packed,
                   .bias = bias.data(),
                   .y = want.data(),
                   .y_stride = kN,
                   .num_rows = 1},
                  weight.dense.data(), DType::kBF16);
      ASSERT_TRUE(kernel_test::close(alone.data(), want.data(), kN, tolerance(kK)));
    }
  }
}

// Compares several blocks of rows, over more k than any kernel takes at once, with single rows.
TEST(Linear, ChunksOfKGiveTheBitsOfSingleRows) {
  constexpr int64_t kM = 29, kN = 70, kK = 4300;
  const auto x = random_floats(31, kM * kK);
  const auto before = random_floats(32, kM * kN);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 2);
    for (const Types types : kTypes) {
      Weight weight(host.stream, kN, kK, types.dtype, types.compute);
      const auto all = run_linear(host.stream, weight.packed, x.data(), kM, nullptr, &before);
      for (int64_t row = 0; row < kM; row += 4) {
        const std::vector<float> initial(before.begin() + row * kN,
                                         before.begin() + (row + 1) * kN);
        const auto alone =
            run_linear(host.stream, weight.packed, x.data() + row * kK, 1, nullptr, &initial);
        ASSERT_TRUE(kernel_test::same_bits(all.data() + row * kN, alone.data(), kN))
            << to_string(isa) << " " << to_string(types.dtype) << " row " << row;
      }
    }
  }
}

// Many outputs whose rows are 64-byte aligned can be written past the caches, others are not.
TEST(Linear, WhereOutputsLieLeavesNoTraceInThem) {
  constexpr int64_t kM = 545, kN = 1072, kK = 70;
  const auto x = random_floats(41, kM * kK);
  const auto bias = random_floats(42, kN);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 2);
    Weight weight(host.stream, kN, kK, DType::kBF16, ComputeType::kBF16);
    Buffer workspace(linear_workspace_bytes(host.stream, kM, weight.packed.spec));
    Buffer outputs[2] = {Buffer((kM * kN + 1) * 4), Buffer((kM * kN + 1) * 4)};
    float* y[2] = {static_cast<float*>(outputs[0].data()),
                   static_cast<float*>(outputs[1].data()) + 1};
    for (float* to : y) {
      linear(host.stream, {.x = x.data(),
                           .x_stride = kK,
                           .weight = &weight.packed,
                           .bias = bias.data(),
                           .y = to,
                           .y_stride = kN,
                           .num_rows = kM,
                           .workspace = workspace.data()});
    }
    EXPECT_TRUE(kernel_test::same_bits(y[0], y[1], kM * kN)) << to_string(isa);
    const auto alone =
        run_linear(host.stream, weight.packed, x.data() + 544 * kK, 1, bias.data(), nullptr);
    EXPECT_TRUE(kernel_test::same_bits(y[0] + 544 * kN, alone.data(), kN)) << to_string(isa);
  }
}

TEST(Linear, TilesInHardwareAndInSoftwareGiveTheSameBits) {
  if (!has_isa(Isa::kAmx))
    GTEST_SKIP() << "SKIPPED: this CPU has no AMX, or the system no permission";
  Host hardware(Isa::kAmx), software(Isa::kAmxEmulated);
  for (const LinearCase& c : kernel_cases::linear_cases()) {
    Weight weight(hardware.stream, c.n, c.k, DType::kBF16, ComputeType::kBF16);
    const auto x = random_floats(1, c.m * c.k);
    const auto a = run_linear(hardware.stream, weight.packed, x.data(), c.m, nullptr, nullptr);
    const auto b = run_linear(software.stream, weight.packed, x.data(), c.m, nullptr, nullptr);
    ASSERT_TRUE(kernel_test::same_bits(a.data(), b.data(), c.m * c.n))
        << "m " << c.m << " n " << c.n << " k " << c.k;
  }
}

// Covers every bit pattern of bf16: subnormals, infinities, NaNs, sums that overflow and that
// cancel. Only the payload of a NaN can differ.
TEST(Linear, TilesInHardwareAndInSoftwareAgreeOnExtremeNumbers) {
  if (!has_isa(Isa::kAmx))
    GTEST_SKIP() << "SKIPPED: this CPU has no AMX, or the system no permission";
  Host hardware(Isa::kAmx), software(Isa::kAmxEmulated);
  constexpr int64_t kM = 21, kN = 75;
  for (const int64_t k : {2, 32, 70, 300}) {
    // Exponents from a window that moves from subnormals to infinity, so that most sums stay
    // finite.
    for (const uint32_t lowest_exponent : {0, 1, 60, 100, 124, 180, 220, 240}) {
      const auto extreme = [&](uint64_t seed, int64_t count) {
        std::vector<float> out(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) {
          const uint32_t bits = philox4x32(seed, {static_cast<uint32_t>(i), 0, 0, 0})[0];
          const uint32_t exponent = std::min(lowest_exponent + bits % 16, 255u);
          out[i] = std::bit_cast<float>((bits & 0x807f0000u) | exponent << 23);
        }
        return out;
      };
      const WeightSpec spec{kN, k, DType::kBF16, ComputeType::kBF16};
      Buffer rows = kernel_test::stored(DType::kBF16, extreme(lowest_exponent, kN * k));
      Buffer memory(packed_weight_bytes(spec));
      const PackedWeight weight{spec, memory.data()};
      pack_weight_rows(hardware.stream, weight,
                       {.rows = rows.data(), .dtype = DType::kBF16, .num_rows = kN});
      const auto x = extreme(1000 + lowest_exponent, kM * k);
      const auto a = run_linear(hardware.stream, weight, x.data(), kM, nullptr, nullptr);
      const auto b = run_linear(software.stream, weight, x.data(), kM, nullptr, nullptr);
      for (int64_t i = 0; i < kM * kN; ++i) {
        const bool same = std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]);
        ASSERT_TRUE(same || (std::isnan(a[i]) && std::isnan(b[i])))
            << a[i] << " in hardware, " << b[i] << " in software: k " << k << ", exponents from "
            << lowest_exponent;
      }
    }
  }
}

TEST(Linear, KeepsToItsColumnsWithWideStrides) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    constexpr int64_t kM = 3, kN = 21, kK = 10, kStride = 40;
    Weight weight(host.stream, kN, kK, DType::kBF16, ComputeType::kBF16);
    const auto x = random_floats(1, kM * kStride);
    std::vector<float> y(kM * kStride, 123.0f);
    Buffer workspace(linear_workspace_bytes(host.stream, kM, weight.packed.spec));
    linear(host.stream, {.x = x.data(),
                         .x_stride = kStride,
                         .weight = &weight.packed,
                         .y = y.data(),
                         .y_stride = kStride,
                         .num_rows = kM,
                         .workspace = workspace.data()});
    for (int64_t m = 0; m < kM; ++m) {
      for (int64_t n = 0; n < kStride; ++n) ASSERT_EQ(y[m * kStride + n] == 123.0f, n >= kN);
    }
  }
}

}  // namespace
}  // namespace quire
