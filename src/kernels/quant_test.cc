#include "kernels/api/quant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/bench/cases.h"
#include "kernels/ref/ref.h"
#include "kernels/testing/quant_cases.h"
#include "kernels/testing/quant_test_rows.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_cases::LinearCase;
using kernel_cases::QuantFormat;
using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::kEpsilon;
using kernel_test::random_floats;
using kernel_test::random_word;

// A weight packed in two parts, as fused projections are.
struct Weight {
  Weight(Stream& stream, const WeightSpec& spec, uint64_t seed = 7)
      : source(spec, seed),
        dense(source.dense()),
        memory(packed_weight_bytes(spec)),
        packed{spec, memory.data()} {
    EXPECT_TRUE(check_quant(spec).ok()) << check_quant(spec).message();
    const int64_t middle = spec.n / 3;
    pack_quant_rows(stream, packed, source.rows(middle, spec.n));
    pack_quant_rows(stream, packed, source.rows(0, middle));
    if (spec.quant.has_column_order) pack_quant_columns(packed, source.order.data());
  }
  kernel_test::QuantSource source;
  std::vector<float> dense;
  Buffer memory;
  PackedWeight packed;
};

std::vector<float> run_linear(Stream& stream, const PackedWeight& weight, const float* x, int64_t m,
                              const float* bias, const std::vector<float>* initial) {
  const int64_t n = weight.spec.n;
  std::vector<float> y = initial != nullptr ? *initial : kernel_test::poisoned(m * n);
  Buffer workspace(linear_workspace_bytes(stream, m, weight.spec));
  linear(stream, {.x = x,
                  .x_stride = weight.spec.k,
                  .weight = &weight,
                  .bias = bias,
                  .y = y.data(),
                  .y_stride = n,
                  .accumulate = initial != nullptr,
                  .num_rows = m,
                  .workspace = workspace.data()});
  return y;
}

constexpr ComputeType kComputes[] = {ComputeType::kF32, ComputeType::kBF16};

// Returns the compute types for a format with K columns.
std::vector<ComputeType> computes_of(const QuantFormat& format, int64_t k) {
  std::vector<ComputeType> computes(std::begin(kComputes), std::end(kComputes));
  if (takes_int8_activations({.n = 1, .k = k, .quant = format.spec})) {
    computes.push_back(ComputeType::kInt8);
  }
  return computes;
}

// Rounds a row of K activations to the numbers that ComputeType::kInt8 multiplies.
void round_activations(const WeightSpec& spec, const float* x, const int32_t* column_order,
                       float* out) {
  const auto column = [&](int64_t k) { return column_order == nullptr ? k : column_order[k]; };
  for (int64_t begin = 0; begin < spec.k; begin += spec.quant.group_size) {
    const int64_t end = std::min(begin + spec.quant.group_size, spec.k);
    float most = 0.0f;
    for (int64_t k = begin; k < end; ++k) most = std::max(most, std::abs(x[column(k)]));
    for (int64_t k = begin; k < end; ++k) {
      const float code = most == 0.0f ? 0.0f : std::nearbyint(x[column(k)] * (127.0f / most));
      out[column(k)] = code * (most / 127.0f);
    }
  }
}

// Returns activations as the kernels multiply them: rounded to int8 if the compute type says so.
std::vector<float> as_multiplied(const Weight& weight, const std::vector<float>& x) {
  const WeightSpec& spec = weight.packed.spec;
  if (spec.compute != ComputeType::kInt8) return x;
  std::vector<float> rounded(x.size());
  const int32_t* order = spec.quant.has_column_order ? weight.source.order.data() : nullptr;
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(spec.k)) {
    round_activations(spec, &x[at], order, &rounded[at]);
  }
  return rounded;
}

TEST(Quant, PackedRowsStandForTheSameFloats) {
  Host host(Isa::kPortable);
  for (const QuantFormat& format : kernel_cases::quant_formats()) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {33, 40}, {64, 256}, {45, 777}}) {
      SCOPED_TRACE(::testing::Message() << format.name << " " << n << " x " << k);
      const Weight weight(host.stream, {.n = n, .k = k, .quant = format.spec});
      for (int64_t row = 0; row < n; ++row) {
        auto got = kernel_test::poisoned(k);
        unpack_quant_row(weight.packed, row, got.data());
        ASSERT_TRUE(kernel_test::same_bits(got.data(), weight.dense.data() + row * k, k));
      }
    }
  }
}

std::vector<float> identity(int64_t k) {
  std::vector<float> unit(k * k, 0.0f);
  for (int64_t i = 0; i < k; ++i) unit[i * k + i] = 1.0f;
  return unit;
}

// Returns whether the kernels round weights to bf16: those of tiles do if groups are short, which
// few columns can make them. All other kernels multiply the weights themselves.
bool rounds_weights(Isa isa, const WeightSpec& spec) {
  return spec.compute == ComputeType::kBF16 && (isa == Isa::kAmx || isa == Isa::kAmxEmulated) &&
         (spec.quant.bits > 4 || std::min(spec.quant.group_size, spec.k) < 128);
}

// Returns the error from rounding scale, min, product and weight, given the largest |w| and |min|
// of all.
double rounding_of(double weight, double largest) {
  return std::abs(weight) * 0x1p-8 + 3.0 * largest * 0x1p-11;
}

// Returns the largest |scale * c| or |min|, from the weights with codes 0 and all ones.
double largest_term(const kernel_test::QuantSource& source) {
  kernel_test::QuantSource extremes = source;
  double largest = 0.0;
  for (const int code : {0, 1 << (source.spec.quant.bits - 1), (1 << source.spec.quant.bits) - 1}) {
    const bool is_e4m3 = source.spec.quant.codebook == Codebook::kE4M3;
    std::fill(extremes.codes.begin(), extremes.codes.end(),
              static_cast<uint8_t>(is_e4m3 && code == 255 ? 0x7e : code));
    for (const float w : extremes.dense()) largest = std::max(largest, std::abs(double{w}));
  }
  return 2.0 * largest;
}

// A unit vector selects a column of W. So this compares the kernels' own decoders bit by bit (on
// tiles within their rounding), for few rows and for many.
TEST(Quant, ColumnsOfTheProductAreTheSameFloats) {
  constexpr int64_t kN = 50, kK = 300;
  const std::vector<float> unit = identity(kK);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (const QuantFormat& format : kernel_cases::quant_formats()) {
      for (const ComputeType compute : kComputes) {
        SCOPED_TRACE(::testing::Message() << to_string(isa) << " " << format.name << " compute "
                                          << static_cast<int>(compute));
        const Weight weight(host.stream,
                            {.n = kN, .k = kK, .compute = compute, .quant = format.spec});
        const double largest =
            rounds_weights(isa, weight.packed.spec) ? largest_term(weight.source) : 0.0;
        for (const int64_t rows : {int64_t{1}, kK}) {
          for (int64_t first = 0; first < kK; first += rows * 7) {
            const auto y =
                run_linear(host.stream, weight.packed, &unit[first * kK], rows, nullptr, nullptr);
            for (int64_t i = 0; i < rows * kN; ++i) {
              const float want = weight.dense[i % kN * kK + first + i / kN];
              if (rounds_weights(isa, weight.packed.spec)) {
                ASSERT_NEAR(y[i], want, rounding_of(want, largest))
                    << "column " << first + i / kN << " output " << i % kN;
              } else {
                ASSERT_EQ(y[i], want) << "column " << first + i / kN << " output " << i % kN;
              }
            }
          }
        }
      }
    }
  }
}

// The tolerance of linear_test.cc times the largest term: |w|, and what a zero point or minimum
// subtracts.
double tolerance(int64_t k, const std::vector<float>& dense) {
  float largest = 0.0f;
  for (const float w : dense) largest = std::max(largest, std::abs(w));
  return kEpsilon * (8.0 * static_cast<double>(k) / 3.0 + 16.0) * 4.0 * largest;
}

// Returns the weights [N, K] that a stream multiplies by, found with unit vectors.
std::vector<float> weights_of(Stream& stream, const PackedWeight& weight) {
  const auto [n, k] = std::pair{weight.spec.n, weight.spec.k};
  const auto columns = run_linear(stream, weight, identity(k).data(), k, nullptr, nullptr);
  std::vector<float> w(columns.size());
  for (int64_t i = 0; i < n * k; ++i) w[i % n * k + i / n] = columns[i];
  return w;
}

std::vector<float> reference(const LinearCase& c, const PackedWeight& weight,
                             const std::vector<float>& dense, const float* x, const float* bias,
                             std::vector<float> y) {
  ref::linear({.x = x,
               .x_stride = c.k,
               .weight = &weight,
               .bias = bias,
               .y = y.data(),
               .y_stride = c.n,
               .accumulate = c.accumulate,
               .num_rows = c.m},
              dense.data(), DType::kF32);
  return y;
}

// Every format runs on every case, with one of its compute types in turn.
TEST(Quant, MatchesReferenceOnEveryIsaAndFormat) {
  std::vector<std::unique_ptr<Host>> hosts;
  for (const Isa isa : kernel_test::isas()) hosts.push_back(std::make_unique<Host>(isa));
  int turn = 0;
  for (const QuantFormat& format : kernel_cases::quant_formats()) {
    for (const LinearCase& c : kernel_cases::linear_cases()) {
      if (c.transposed) continue;
      const std::vector<ComputeType> computes = computes_of(format, c.k);
      const ComputeType compute = computes[static_cast<size_t>(++turn) % computes.size()];
      const Weight weight(hosts[0]->stream,
                          {.n = c.n, .k = c.k, .compute = compute, .quant = format.spec});
      const auto x = random_floats(1, c.m * c.k);
      const auto bias = random_floats(2, c.n);
      const auto initial = random_floats(3, c.m * c.n);
      const float* bias_or_null = c.bias ? bias.data() : nullptr;
      const auto multiplied = as_multiplied(weight, x);
      const auto want =
          reference(c, weight.packed, weight.dense, multiplied.data(), bias_or_null, initial);
      for (const auto& host : hosts) {
        SCOPED_TRACE(::testing::Message()
                     << to_string(host->stream.isa()) << " " << format.name << " compute "
                     << static_cast<int>(compute) << " m " << c.m << " n " << c.n << " k " << c.k);
        const auto got = run_linear(host->stream, weight.packed, x.data(), c.m, bias_or_null,
                                    c.accumulate ? &initial : nullptr);
        const bool rounds = rounds_weights(host->stream.isa(), weight.packed.spec);
        const auto want_here =
            rounds ? reference(c, weight.packed, weights_of(host->stream, weight.packed), x.data(),
                               bias_or_null, initial)
                   : want;
        ASSERT_TRUE(kernel_test::close(got.data(), want_here.data(), c.m * c.n,
                                       tolerance(c.k, weight.dense) + 4.0 * kEpsilon));
      }
    }
  }
}

// Multiplies codes of one value by the largest activations. Integer sums of a group come near 2^31,
// and those of tables exceed it until their offset is subtracted.
TEST(Quant, LargestSumsOfAGroupAreRight) {
  constexpr int64_t kN = 40, kK = 512, kMaxRows = 40;
  const QuantSpec bytes{.bits = 8, .group_size = 256, .scale_type = ScaleType::kF32};
  std::vector<QuantSpec> specs = {bytes, bytes};
  specs[1].offset = 128;
  for (const Codebook table : {Codebook::kIq4Nl, Codebook::kIq1, Codebook::kIq2, Codebook::kIq3Xxs,
                               Codebook::kIq3S, Codebook::kE2M1}) {
    specs.push_back(bytes);
    specs.back().bits = 4;
    specs.back().codebook = table;
  }
  for (const QuantSpec& quant : specs) {
    const WeightSpec spec{.n = kN, .k = kK, .compute = ComputeType::kBF16, .quant = quant};
    ASSERT_TRUE(check_quant(spec).ok()) << check_quant(spec).message();
    for (const int code : {0, (1 << quant.bits) - 1}) {
      kernel_test::QuantSource source(spec, 7);
      std::fill(source.codes.begin(), source.codes.end(), static_cast<uint8_t>(code));
      const std::vector<float> ones(source.scales.size() / sizeof(float), 1.0f);
      std::memcpy(source.scales.data(), ones.data(), source.scales.size());
      std::vector<float> values(kN * kK);
      ref::dequantize(spec, source.rows(0, kN), values.data());
      for (const float x : {255.0f / 128, -255.0f / 128}) {
        const std::vector<float> rows(kMaxRows * kK, x);
        const double want = static_cast<double>(kK) * values[0] * x;
        for (const Isa isa : kernel_test::isas()) {
          Host host(isa);
          Buffer memory(packed_weight_bytes(spec));
          const PackedWeight packed{spec, memory.data()};
          pack_quant_rows(host.stream, packed, source.rows(0, kN));
          for (const int64_t m : {int64_t{1}, kMaxRows}) {
            for (const float y :
                 run_linear(host.stream, packed, rows.data(), m, nullptr, nullptr)) {
              ASSERT_NEAR(y, want, 1e-5 * std::abs(want))
                  << to_string(isa) << " codebook " << static_cast<int>(quant.codebook) << " code "
                  << code << " m " << m;
            }
          }
        }
      }
    }
  }
}

// Law L4: a row's bits depend on the row and the weight alone.
TEST(Quant, RowBitsDoNotDependOnBatchOrThreads) {
  constexpr int64_t kN = 70, kK = 333;
  constexpr int64_t kMaxRows = 70;
  const auto x = random_floats(11, kMaxRows * kK);
  const auto bias = random_floats(12, kN);
  for (const Isa isa : kernel_test::isas()) {
    Host hosts[] = {Host(isa, 1), Host(isa, 2), Host(isa, 3)};
    for (const QuantFormat& format : kernel_cases::quant_formats()) {
      for (const ComputeType compute : computes_of(format, kK)) {
        const Weight weight(hosts[0].stream,
                            {.n = kN, .k = kK, .compute = compute, .quant = format.spec});
        std::vector<float> alone;
        for (int64_t row = 0; row < kMaxRows; ++row) {
          const auto y = run_linear(hosts[0].stream, weight.packed, x.data() + row * kK, 1,
                                    bias.data(), nullptr);
          alone.insert(alone.end(), y.begin(), y.end());
        }
        for (const int64_t m : {2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                16, 17, 20, 24, 25, 27, 31, 32, 33, 48, 49, 70}) {
          const int64_t first = (m * 5) % (kMaxRows - m + 1);
          const auto y = run_linear(hosts[m % 3].stream, weight.packed, x.data() + first * kK, m,
                                    bias.data(), nullptr);
          ASSERT_TRUE(kernel_test::same_bits(y.data(), alone.data() + first * kN, m * kN))
              << to_string(isa) << " " << format.name << " m " << m;
        }
      }
    }
  }
}

// The same for many rows, which are multiplied in several groups.
TEST(Quant, RowBitsDoNotDependOnALongPrompt) {
  constexpr int64_t kN = 70, kK = 333, kRows = 1301;
  const auto x = random_floats(13, kRows * kK);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa, 2);
    for (const QuantFormat& format : kernel_cases::quant_formats()) {
      std::vector<ComputeType> computes = computes_of(format, kK);
      std::erase(computes, ComputeType::kF32);
      for (const ComputeType compute : computes) {
        const Weight weight(host.stream,
                            {.n = kN, .k = kK, .compute = compute, .quant = format.spec});
        const auto all = run_linear(host.stream, weight.packed, x.data(), kRows, nullptr, nullptr);
        for (const int64_t row :
             {int64_t{0}, int64_t{319}, int64_t{433}, int64_t{640}, kRows - 1}) {
          const auto alone =
              run_linear(host.stream, weight.packed, x.data() + row * kK, 1, nullptr, nullptr);
          ASSERT_TRUE(kernel_test::same_bits(all.data() + row * kN, alone.data(), kN))
              << to_string(isa) << " " << format.name << " row " << row;
        }
      }
    }
  }
}

// A group of zeros adds nothing; one infinity or NaN makes every output of its row NaN.
TEST(Quant, ActivationsOfInt8AreZeroOrNotNumbersWithTheirGroup) {
  constexpr int64_t kN = 40, kK = 96;
  const WeightSpec spec{.n = kN,
                        .k = kK,
                        .compute = ComputeType::kInt8,
                        .quant = {.bits = 8, .offset = 128, .group_size = 32}};
  std::vector<float> x(3 * kK, 0.0f);
  x[kK + 40] = std::numeric_limits<float>::infinity();
  x[2 * kK + 5] = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    const Weight weight(host.stream, spec);
    const auto y = run_linear(host.stream, weight.packed, x.data(), 3, nullptr, nullptr);
    for (int64_t i = 0; i < kN; ++i) {
      EXPECT_EQ(y[i], 0.0f) << to_string(isa);
      EXPECT_TRUE(std::isnan(y[kN + i]) && std::isnan(y[2 * kN + i])) << to_string(isa);
    }
  }
}

// Compares tiles in hardware and in software, and codes that are decoded in vectors and one by one.
TEST(Quant, AmxAndItsEmulationGiveTheSameBits) {
  if (!has_isa(Isa::kAmx)) GTEST_SKIP() << "SKIPPED: this CPU has no AMX";
  constexpr int64_t kN = 100, kK = 1100, kM = 37;
  const auto x = random_floats(21, kM * kK);
  Host amx(Isa::kAmx), emulated(Isa::kAmxEmulated);
  for (const QuantFormat& format : kernel_cases::quant_formats()) {
    const Weight weight(amx.stream,
                        {.n = kN, .k = kK, .compute = ComputeType::kBF16, .quant = format.spec});
    for (const int64_t m : {int64_t{3}, int64_t{20}, kM}) {
      const auto got = run_linear(amx.stream, weight.packed, x.data(), m, nullptr, nullptr);
      const auto want = run_linear(emulated.stream, weight.packed, x.data(), m, nullptr, nullptr);
      ASSERT_TRUE(kernel_test::same_bits(got.data(), want.data(), m * kN))
          << format.name << " m " << m;
    }
  }
}

TEST(Quant, PackedSizeStaysNearTheDisk) {
  const auto bits_per_weight = [](const char* name) {
    for (const QuantFormat& format : kernel_cases::quant_formats()) {
      if (std::string_view(name) != format.name) continue;
      const WeightSpec spec{.n = 2048, .k = 2048, .quant = format.spec};
      return static_cast<double>(packed_weight_bytes(spec)) * 8.0 / (2048.0 * 2048.0);
    }
    return 0.0;
  };
  EXPECT_NEAR(bits_per_weight("q4_0"), 4.5, 0.01);
  EXPECT_NEAR(bits_per_weight("q8_0"), 8.5, 0.01);
  EXPECT_NEAR(bits_per_weight("q2_k"), 2.625, 0.01);
  EXPECT_NEAR(bits_per_weight("q3_k"), 3.5625, 0.01);  // 3.4375 on disk: 6-bit scales in bytes
  EXPECT_NEAR(bits_per_weight("q4_k"), 4.625, 0.01);   // 4.5 on disk: 6-bit scales in bytes
  EXPECT_NEAR(bits_per_weight("q5_k"), 5.625, 0.01);   // 5.5 on disk
  EXPECT_NEAR(bits_per_weight("q6_k"), 6.5625, 0.01);
  EXPECT_NEAR(bits_per_weight("mxfp4"), 4.25, 0.01);
  EXPECT_NEAR(bits_per_weight("awq int4 g128"), 4.1875, 0.01);  // 4.156 on disk: zeros in bytes
  EXPECT_NEAR(bits_per_weight("fp8 g128"), 8.25, 0.01);
}

TEST(Quant, RefusesSpecsByWhatIsWrong) {
  const WeightSpec good{.n = 8,
                        .k = 512,
                        .quant = {.bits = 4,
                                  .offset = 8,
                                  .group_size = 32,
                                  .scale_type = ScaleType::kU8,
                                  .zero_kind = ZeroKind::kMin,
                                  .super_scale_type = ScaleType::kF16,
                                  .super_group_size = 256}};
  ASSERT_TRUE(check_quant(good).ok());
  const auto refused = [&](auto&& change, const char* word) {
    WeightSpec spec = good;
    change(spec);
    const Status status = check_quant(spec);
    EXPECT_FALSE(status.ok()) << word;
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  };
  refused([](WeightSpec& s) { s.k = 0; }, "K");
  refused([](WeightSpec& s) { s.k = int64_t{1} << 31; }, "K");
  refused([](WeightSpec& s) { s.n = 0; }, "N");
  refused([](WeightSpec& s) { s.quant.bits = 7; }, "bits");
  refused([](WeightSpec& s) { s.quant.bits = 1; }, "bits");
  refused([](WeightSpec& s) { s.quant.codebook = Codebook::kE4M3; }, "codebook");
  refused([](WeightSpec& s) { s.quant.offset = 16; }, "offset");
  refused([](WeightSpec& s) { s.quant.offset = -1; }, "offset");
  refused([](WeightSpec& s) { s.quant.group_size = 24; }, "groups");
  refused([](WeightSpec& s) { s.quant.group_size = 0; }, "groups");
  refused([](WeightSpec& s) { s.quant.scale_type = ScaleType::kNone; }, "scale");
  refused([](WeightSpec& s) { s.quant.scale_type = ScaleType::kF16; }, "super-scale");
  refused([](WeightSpec& s) { s.quant.super_scale_type = ScaleType::kNone; }, "super-scale");
  refused([](WeightSpec& s) { s.quant.super_scale_type = ScaleType::kU8; }, "float16");
  refused([](WeightSpec& s) { s.quant.super_group_size = 48; }, "super-groups");
  refused([](WeightSpec& s) { s.quant.scale_type = ScaleType::kE4M3; }, "minima");
}

}  // namespace
}  // namespace quire
