// Compares linear() with `greatest` or `gate`, which do not store all outputs, with all outputs of
// the same product.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "base/rng.h"
#include "kernels/api/activation.h"
#include "kernels/testing/linear_test_support.h"
#include "kernels/testing/quant_cases.h"
#include "kernels/testing/quant_test_rows.h"

namespace quire {
namespace {

using kernel_test::Buffer;
using kernel_test::Host;

// Returns -1, 0 and 1, so that many outputs are equal.
std::vector<float> small_integers(uint64_t seed, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = philox4x32(seed, {static_cast<uint32_t>(i), 0, 0, 0})[0];
    out[static_cast<size_t>(i)] = static_cast<float>(word % 3) - 1.0f;
  }
  return out;
}

std::vector<RowGreatest> run_greatest(HostStream& stream, const PackedWeight& weight,
                                      const float* x, int64_t m, const float* bias,
                                      const uint32_t* const* allowed = nullptr) {
  const int64_t n = weight.spec.n;
  auto scratch = kernel_test::poisoned(m * n);
  Buffer workspace(linear_workspace_bytes(stream, m, weight.spec));
  std::vector<RowGreatest> found(static_cast<size_t>(stream.team().size() * m),
                                 {.value = 1e30f, .column = 7, .all_finite = false});
  linear(stream, {.x = x,
                  .x_stride = weight.spec.k,
                  .weight = &weight,
                  .bias = bias,
                  .y = scratch.data(),
                  .y_stride = n,
                  .num_rows = m,
                  .workspace = workspace.data(),
                  .greatest = found.data(),
                  .allowed = allowed});
  found.resize(static_cast<size_t>(m));
  return found;
}

void expect_greatest(HostStream& stream, const PackedWeight& weight, const std::vector<float>& x,
                     int64_t m, const float* bias) {
  const int64_t n = weight.spec.n;
  const auto y = kernel_test::run_linear(stream, weight, x.data(), m, bias, nullptr);
  const auto found = run_greatest(stream, weight, x.data(), m, bias);
  for (int64_t row = 0; row < m; ++row) {
    const float* from = y.data() + row * n;
    const RowGreatest& got = found[static_cast<size_t>(row)];
    const bool finite = std::all_of(from, from + n, [](float v) { return std::isfinite(v); });
    ASSERT_EQ(got.all_finite, finite) << "row " << row;
    if (!finite) continue;
    const float* best = std::max_element(from, from + n);  // the first of equals
    ASSERT_EQ(got.column, best - from) << "row " << row << " of " << m << " x " << n;
    ASSERT_EQ(got.value, *best);
  }
}

struct Shape {
  int64_t m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1},      {1, 70000, 8},  {3, 5, 40},      {7, 333, 64},
                             {32, 9001, 32}, {45, 7000, 16}, {130, 2100, 24}, {2, 33, 1024},
                             {4, 65, 1024},  {2, 1500, 2048}};

TEST(Greatest, IsTheFirstOfTheGreatestOfAllOutputs) {
  struct Types {
    DType dtype;
    ComputeType compute;
  };
  constexpr Types kTypes[] = {{DType::kBF16, ComputeType::kF32},
                              {DType::kBF16, ComputeType::kBF16},
                              {DType::kF32, ComputeType::kF32},
                              {DType::kI8, ComputeType::kInt8}};
  for (const Isa isa : kernel_test::isas()) {
    Host hosts[] = {Host(isa, 1), Host(isa, 3)};
    for (const Types types : kTypes) {
      for (const Shape& shape : kShapes) {
        SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << to_string(types.dtype) << " "
                                          << shape.m << " x " << shape.n << " x " << shape.k);
        const WeightSpec spec{shape.n, shape.k, types.dtype, types.compute};
        Buffer memory(packed_weight_bytes(spec));
        const PackedWeight weight{spec, memory.data()};
        const auto values = small_integers(1, shape.n * shape.k);
        pack_weight_rows(
            hosts[0].stream, weight,
            {.rows = values.data(), .dtype = DType::kF32, .first_row = 0, .num_rows = shape.n});
        const auto x = small_integers(2, shape.m * shape.k);
        const auto bias = small_integers(3, shape.n);
        for (Host& host : hosts) {
          expect_greatest(host.stream, weight, x, shape.m, nullptr);
          expect_greatest(host.stream, weight, x, shape.m, bias.data());
        }
      }
    }
  }
}

// Returns a mask that allows all, none, one, few or most of `num_bits` columns.
std::vector<uint32_t> random_mask(uint64_t seed, int64_t num_bits) {
  std::vector<uint32_t> words(static_cast<size_t>((num_bits + 31) / 32));
  const auto draw = [seed](int64_t i) {
    return philox4x32(seed, {static_cast<uint32_t>(i), 1, 0, 0})[0];
  };
  const auto one = static_cast<int64_t>(draw(-1) % static_cast<uint64_t>(num_bits));
  for (int64_t i = 0; i < num_bits; ++i) {
    const bool few = draw(i) % 100 == 0;
    const bool bits[] = {true, false, i == one, few, !few};
    if (bits[seed % 5]) words[static_cast<size_t>(i / 32)] |= 1u << (i % 32);
  }
  return words;
}

void expect_greatest_allowed(HostStream& stream, const PackedWeight& weight,
                             const std::vector<float>& x, int64_t m) {
  const int64_t n = weight.spec.n;
  const auto y = kernel_test::run_linear(stream, weight, x.data(), m, nullptr, nullptr);
  std::vector<std::vector<uint32_t>> masks;
  std::vector<const uint32_t*> allowed;
  for (int64_t row = 0; row < m; ++row) {
    masks.push_back(random_mask(static_cast<uint64_t>(row), n));
    allowed.push_back(row % 7 == 6 ? nullptr : masks.back().data());
  }
  const auto found = run_greatest(stream, weight, x.data(), m, nullptr, allowed.data());
  for (int64_t row = 0; row < m; ++row) {
    int64_t best = -1;
    bool all_finite = true;
    for (int64_t i = 0; i < n; ++i) {
      const float value = y[static_cast<size_t>(row * n + i)];
      all_finite &= std::isfinite(value);
      const uint32_t* words = allowed[static_cast<size_t>(row)];
      if (words != nullptr && (words[i / 32] >> (i % 32) & 1u) == 0) continue;
      if (best < 0 || value > y[static_cast<size_t>(row * n + best)]) best = i;
    }
    const RowGreatest& got = found[static_cast<size_t>(row)];
    ASSERT_EQ(got.all_finite, all_finite) << "row " << row;
    if (!all_finite) continue;
    ASSERT_EQ(got.column, best) << "row " << row << " of " << m << " x " << n;
  }
}

TEST(Greatest, IsTheFirstOfThoseThatAreAllowed) {
  for (const Isa isa : kernel_test::isas()) {
    Host hosts[] = {Host(isa, 1), Host(isa, 3)};
    for (const bool is_quantized : {false, true}) {
      for (const Shape& shape : kShapes) {
        if (is_quantized && shape.k % 32 != 0) continue;
        SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << is_quantized << " " << shape.m
                                          << " x " << shape.n << " x " << shape.k);
        WeightSpec spec{shape.n, shape.k, DType::kBF16, ComputeType::kBF16};
        if (is_quantized) spec.quant = {.bits = 4, .offset = 8, .group_size = 32};
        Buffer memory(packed_weight_bytes(spec));
        const PackedWeight weight{spec, memory.data()};
        if (is_quantized) {
          kernel_test::QuantSource source(spec, 5);
          pack_quant_rows(hosts[0].stream, weight, source.rows(0, shape.n));
        } else {
          const auto values = small_integers(1, shape.n * shape.k);
          pack_weight_rows(
              hosts[0].stream, weight,
              {.rows = values.data(), .dtype = DType::kF32, .first_row = 0, .num_rows = shape.n});
        }
        auto x = small_integers(2, shape.m * shape.k);
        for (Host& host : hosts) expect_greatest_allowed(host.stream, weight, x, shape.m);
        x[0] = std::numeric_limits<float>::quiet_NaN();
        expect_greatest_allowed(hosts[1].stream, weight, x, shape.m);
      }
    }
  }
}

// Law L4: bits do not depend on how many members of the team compute, nor on which of them are
// late.
TEST(LinearColumns, AreTheSameBitsWhicheverMembersCome) {
  const WeightSpec spec{9001, 256, DType::kBF16, ComputeType::kF32};
  constexpr int64_t kRows = 3;
  for (const Isa isa : kernel_test::isas()) {
    Host alone(isa, 1);
    Buffer memory(packed_weight_bytes(spec));
    const PackedWeight weight{spec, memory.data()};
    const auto values = kernel_test::random_floats(1, spec.n * spec.k);
    pack_weight_rows(
        alone.stream, weight,
        {.rows = values.data(), .dtype = DType::kF32, .first_row = 0, .num_rows = spec.n});
    const auto x = kernel_test::random_floats(2, kRows * spec.k);
    const auto y = kernel_test::run_linear(alone.stream, weight, x.data(), kRows, nullptr, nullptr);
    for (const int threads : {2, 3, 5}) {
      std::atomic<int> num_entered{0};
      Host host(isa, {.num_threads = threads, .on_enter = [&](int member) {
                        const int entered = ++num_entered;
                        const int delay_us = entered * member * 37 % 300;
                        std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
                      }});
      for (int round = 0; round < 20; ++round) {
        ASSERT_EQ(kernel_test::run_linear(host.stream, weight, x.data(), kRows, nullptr, nullptr),
                  y)
            << to_string(isa) << ", " << threads << " threads";
      }
    }
  }
}

TEST(Greatest, OfQuantizedWeights) {
  for (const Isa isa : kernel_test::isas()) {
    Host hosts[] = {Host(isa, 1), Host(isa, 3)};
    for (const kernel_cases::QuantFormat& format : kernel_cases::quant_formats()) {
      if (!format.in_benchmark) continue;
      constexpr int64_t kN = 5000, kK = 64, kM = 33;
      const WeightSpec spec{.n = kN, .k = kK, .compute = ComputeType::kBF16, .quant = format.spec};
      kernel_test::QuantSource source(spec, 5);
      Buffer memory(packed_weight_bytes(spec));
      const PackedWeight weight{spec, memory.data()};
      pack_quant_rows(hosts[0].stream, weight, source.rows(0, kN));
      const auto x = small_integers(6, kM * kK);
      for (Host& host : hosts) {
        SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << format.name);
        expect_greatest(host.stream, weight, x, 1, nullptr);
        expect_greatest(host.stream, weight, x, kM, nullptr);
      }
    }
  }
}

TEST(Greatest, RowsThatAreNotFiniteAreSaidToBe) {
  constexpr int64_t kN = 3000, kK = 32, kM = 9;
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 2);
    const WeightSpec spec{kN, kK, DType::kBF16, ComputeType::kF32};
    Buffer memory(packed_weight_bytes(spec));
    const PackedWeight weight{spec, memory.data()};
    const auto values = small_integers(1, kN * kK);
    pack_weight_rows(host.stream, weight,
                     {.rows = values.data(), .dtype = DType::kF32, .first_row = 0, .num_rows = kN});
    auto x = small_integers(2, kM * kK);
    x[2 * kK + 3] = std::numeric_limits<float>::infinity();
    x[5 * kK] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> bias(kN, 0.0f);
    expect_greatest(host.stream, weight, x, kM, bias.data());
    bias[kN - 1] = -std::numeric_limits<float>::infinity();  // one output of every row
    expect_greatest(host.stream, weight, x, kM, bias.data());
  }
}

// Expects the bits of the product followed by the activation.
void expect_gated(HostStream& stream, const PackedWeight& weight, const std::vector<float>& x,
                  int64_t m, const float* bias, Activation kind) {
  const int64_t n = weight.spec.n;
  ASSERT_TRUE(linear_gates(stream, weight.spec));
  const auto outputs = kernel_test::run_linear(stream, weight, x.data(), m, bias, nullptr);
  auto expected = kernel_test::poisoned(m * n / 2);
  activation(stream, {.x = outputs.data(),
                      .out = expected.data(),
                      .activation = kind,
                      .num_tokens = m,
                      .ffn_size = n / 2});
  auto scratch = kernel_test::poisoned(m * n);
  const int64_t y_bytes = m * n / 2 * int64_t{sizeof(float)};
  Buffer y(y_bytes);
  Buffer workspace(linear_workspace_bytes(stream, m, weight.spec));
  const LinearGate gate{.activation = kind, .scratch = scratch.data()};
  linear(stream, {.x = x.data(),
                  .x_stride = weight.spec.k,
                  .weight = &weight,
                  .bias = bias,
                  .y = static_cast<float*>(y.data()),
                  .y_stride = n / 2,
                  .num_rows = m,
                  .workspace = workspace.data(),
                  .gate = &gate});
  EXPECT_EQ(std::memcmp(y.data(), expected.data(), static_cast<size_t>(y_bytes)), 0)
      << m << " x " << n;
}

constexpr Shape kGatedShapes[] = {{1, 64, 8},       {1, 9024, 32},   {3, 192, 40},  {33, 4736, 16},
                                  {130, 704, 24},   {600, 1088, 32}, {2, 64, 1024}, {5, 2048, 2048},
                                  {301, 448, 1100}, {600, 1856, 32}};

TEST(Gate, LeavesTheBitsOfTheActivation) {
  struct Types {
    DType dtype;
    ComputeType compute;
  };
  constexpr Types kTypes[] = {{DType::kBF16, ComputeType::kBF16},
                              {DType::kF16, ComputeType::kF32},
                              {DType::kI8, ComputeType::kInt8}};
  for (const Isa isa : kernel_test::isas()) {
    Host hosts[] = {Host(isa, 1), Host(isa, 3)};
    for (const Types types : kTypes) {
      for (const Shape& shape : kGatedShapes) {
        SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << to_string(types.dtype));
        const WeightSpec spec{shape.n, shape.k, types.dtype, types.compute};
        Buffer memory(packed_weight_bytes(spec));
        const PackedWeight weight{spec, memory.data()};
        const auto values = kernel_test::random_floats(1, shape.n * shape.k);
        pack_weight_rows(
            hosts[0].stream, weight,
            {.rows = values.data(), .dtype = DType::kF32, .first_row = 0, .num_rows = shape.n});
        const auto x = kernel_test::random_floats(2, shape.m * shape.k);
        const auto bias = kernel_test::random_floats(3, shape.n);
        for (Host& host : hosts) {
          expect_gated(host.stream, weight, x, shape.m, nullptr, Activation::kSilu);
          expect_gated(host.stream, weight, x, shape.m, bias.data(), Activation::kGeluTanh);
        }
      }
    }
  }
}

TEST(Gate, OfQuantizedWeights) {
  for (const Isa isa : kernel_test::isas()) {
    Host hosts[] = {Host(isa, 1), Host(isa, 3)};
    for (const kernel_cases::QuantFormat& format : kernel_cases::quant_formats()) {
      if (!format.in_benchmark) continue;
      constexpr int64_t kN = 2560, kK = 64, kM = 45;
      const WeightSpec spec{.n = kN, .k = kK, .compute = ComputeType::kBF16, .quant = format.spec};
      kernel_test::QuantSource source(spec, 5);
      Buffer memory(packed_weight_bytes(spec));
      const PackedWeight weight{spec, memory.data()};
      pack_quant_rows(hosts[0].stream, weight, source.rows(0, kN));
      const auto x = kernel_test::random_floats(6, kM * kK);
      for (Host& host : hosts) {
        SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << format.name);
        expect_gated(host.stream, weight, x, 1, nullptr, Activation::kSilu);
        expect_gated(host.stream, weight, x, kM, nullptr, Activation::kSilu);
      }
    }
  }
}

TEST(Gate, NeedsHalvesOfWholePanels) {
  Host host(Isa::kPortable, 1);
  EXPECT_TRUE(linear_gates(host.stream, {.n = 192, .k = 32}));
  EXPECT_FALSE(linear_gates(host.stream, {.n = 160, .k = 32}));
  EXPECT_FALSE(linear_gates(host.stream, {.n = 192, .k = 32, .quant = {.bits = 4}}));
  EXPECT_TRUE(linear_gates(host.stream, {.n = 256, .k = 32, .quant = {.bits = 4}}));
}

}  // namespace
}  // namespace quire
