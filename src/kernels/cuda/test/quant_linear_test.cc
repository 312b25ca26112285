#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "kernels/cases.h"
#include "kernels/cuda/quant_weight.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/quant_cases.h"
#include "kernels/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_cases::LinearCase;
using kernel_cases::QuantFormat;
using kernel_test::random_floats;

// Codes, scales and zero points of a whole weight, of any format that a GPU takes.
struct Weight {
  WeightSpec spec;
  std::vector<uint8_t> codes, zeros, scales;
  std::vector<int32_t> order;  // a permutation, used with has_column_order

  Weight(const QuantSpec& quant, int64_t n, int64_t k)
      : spec{.n = n, .k = k, .compute = ComputeType::kBF16, .quant = quant} {
    for (int64_t i = 0; i < n * k; ++i) codes.push_back(code(i));
    const int64_t groups = n * quant.num_groups(k);
    const auto values = random_floats(7, groups, 0.1f);
    for (int64_t i = 0; i < groups; ++i) {
      add_scale(values[static_cast<size_t>(i)]);
      zeros.push_back(code(i + 1000003));
    }
    for (int64_t i = 0; i < k; ++i) order.push_back(static_cast<int32_t>((i * 5 + 3) % k));
    if (k % 5 == 0) std::iota(order.rbegin(), order.rend(), 0);
  }

  // Rows [first, end), of which the arrays begin with the first.
  QuantRows rows(int64_t first, int64_t end) const {
    const int64_t groups = spec.quant.num_groups(spec.k);
    const int64_t scale_bytes = static_cast<int64_t>(scales.size()) / (spec.n * groups);
    return {.codes = codes.data() + first * spec.k,
            .scales = scales.data() + first * groups * scale_bytes,
            .zeros = zeros.data() + first * groups,
            .first_row = first,
            .num_rows = end - first};
  }
  // In the order of x.
  std::vector<float> dense() const {
    std::vector<float> packed(static_cast<size_t>(spec.n * spec.k));
    ref::dequantize(spec, rows(0, spec.n), packed.data());
    if (!spec.quant.has_column_order) return packed;
    std::vector<float> out(packed.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const auto k = static_cast<size_t>(spec.k);
      out[i / k * k + static_cast<size_t>(order[i % k])] = packed[i];
    }
    return out;
  }

 private:
  void add_scale(float value) {
    const auto add = [&](const auto& stored) {
      const auto* from = reinterpret_cast<const uint8_t*>(&stored);
      scales.insert(scales.end(), from, from + sizeof stored);
    };
    switch (spec.quant.scale_type) {
      case ScaleType::kF32:
        return add(value);
      case ScaleType::kF16:
        return add(to_float16(value).bits);
      case ScaleType::kE8M0:
        return add(static_cast<uint8_t>(120 + std::ilogb(value) % 4));
      default:
        return add(to_bfloat16(value).bits);
    }
  }
  uint8_t code(int64_t i) const {
    const auto words = philox4x32(5, {static_cast<uint32_t>(i), 0, 0, 0});
    const auto code = static_cast<uint8_t>(words[0] & ((1u << spec.quant.bits) - 1));
    const bool is_nan = spec.quant.codebook == Codebook::kE4M3 && (code & 0x7f) == 0x7f;
    return is_nan ? 0x7e : code;
  }
};

std::vector<QuantFormat> formats() {
  std::vector<QuantFormat> taken;
  for (const QuantFormat& format : kernel_cases::quant_formats()) {
    const WeightSpec spec{.n = 16, .k = 1024, .quant = format.spec};
    if (cuda::check_quant_weight(spec).ok()) taken.push_back(format);
  }
  return taken;
}

class GpuQuantLinear : public gpu_test::GpuTest {
 protected:
  PackedWeight packed(const Weight& weight) {
    const auto bytes = static_cast<size_t>(cuda::quant_weight_layout(weight.spec).num_bytes);
    std::vector<uint8_t> host(bytes, 0);
    const PackedWeight staged{weight.spec, host.data()};
    const int64_t n = weight.spec.n;
    cuda::pack_quant_weight(staged, weight.rows(n / 3, n));
    cuda::pack_quant_weight(staged, weight.rows(0, n / 3));
    if (weight.spec.quant.has_column_order)
      cuda::pack_quant_weight_order(staged, weight.order.data());
    return {weight.spec, upload(host)};
  }
};

// The largest of sum |x| |w| over all outputs: what rounding errors are in proportion to.
double magnitude(const std::vector<float>& x, const std::vector<float>& w, int64_t m, int64_t n,
                 int64_t k) {
  double largest = 0.0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (int64_t l = 0; l < k; ++l) sum += std::abs(double{x[i * k + l]} * w[j * k + l]);
      largest = std::max(largest, sum);
    }
  }
  return largest;
}

TEST_F(GpuQuantLinear, MatchesReferenceForEveryFormat) {
  ASSERT_GE(formats().size(), 12u);
  for (const QuantFormat& format : formats()) {
    for (const LinearCase& c : kernel_cases::linear_cases()) {
      SCOPED_TRACE(::testing::Message()
                   << format.name << " " << c.m << " x " << c.n << " x " << c.k);
      const Weight weight(format.spec, c.n, c.k);
      const auto dense = weight.dense();
      const auto x = rounded(random_floats(2, c.m * c.k));
      const auto bias = random_floats(3, c.n);
      const DType y_type = c.m % 2 == 0 ? DType::kF32 : DType::kBF16;
      auto want = rounded(random_floats(4, c.m * c.n));
      const PackedWeight on_device = packed(weight);
      LinearParams p{.x = upload_as(DType::kBF16, x),
                     .x_stride = c.k,
                     .weight = &on_device,
                     .bias = c.bias ? upload(bias) : nullptr,
                     .y = upload_as(y_type, want),
                     .y_stride = c.n,
                     .accumulate = c.accumulate,
                     .num_rows = c.m};
      linear(stream(), p);
      const auto got = download_floats(p.y, c.m * c.n);
      p.x = x.data();
      p.bias = c.bias ? bias.data() : nullptr;
      p.y = want.data();
      ref::linear(p, dense.data(), DType::kF32);
      const double size = magnitude(x, dense, c.m, c.n, c.k);
      const double tolerance =
          size * 0x1p-19 + (size + 2.0) * (y_type == DType::kBF16 ? 0x1p-8 : 0x1p-22);
      ASSERT_TRUE(kernel_test::close(got.data(), want.data(), c.m * c.n, tolerance));
    }
  }
}

// A row alone, among few and among many, which run in blocks of other shapes (law L4).
TEST_F(GpuQuantLinear, RowsHaveTheSameBitsHoweverManyThereAre) {
  constexpr int64_t kN = 72, kK = 700, kRows = 45;
  for (const QuantFormat& format : formats()) {
    const Weight weight(format.spec, kN, kK);
    const PackedWeight on_device = packed(weight);
    const Activations x = upload_as(DType::kBF16, random_floats(2, kRows * kK));
    const auto run = [&](int64_t first, int64_t count) {
      auto* y = static_cast<float*>(poisoned(count * kN * 4));
      linear(stream(), {.x = ConstActivations(static_cast<const bfloat16*>(x.data()) + first * kK,
                                              DType::kBF16),
                        .x_stride = kK,
                        .weight = &on_device,
                        .y = y,
                        .y_stride = kN,
                        .num_rows = count});
      return download<float>(y, count * kN);
    };
    const auto all = run(0, kRows);
    for (const int64_t count : {1, 9, 20}) {
      const auto some = run(kRows - count, count);
      ASSERT_TRUE(
          kernel_test::same_bits(some.data(), all.data() + (kRows - count) * kN, count * kN))
          << format.name << " " << count;
    }
  }
}

TEST(QuantWeight, EveryCodeOfATileHasItsPlace) {
  for (const int32_t bits : {4, 8}) {
    std::set<int32_t> places;
    for (int32_t output = 0; output < 16; ++output) {
      for (int32_t input = 0; input < 64; ++input) {
        const cuda::QuantCodeAt at = cuda::quant_code_at(bits, output, input);
        EXPECT_LT(at.byte, 128 * bits);
        EXPECT_TRUE(places.insert(at.byte * 8 + at.shift).second);
      }
    }
  }
}

TEST(QuantWeight, RefusesWhatItDoesNotTake) {
  const auto accepts = [](QuantSpec quant) {
    return cuda::check_quant_weight({.n = 64, .k = 512, .quant = quant}).ok();
  };
  const QuantSpec int4{.bits = 4, .offset = 8, .group_size = 128, .scale_type = ScaleType::kF16};
  EXPECT_TRUE(accepts(int4));
  QuantSpec other = int4;
  other.group_size = 16;
  EXPECT_FALSE(accepts(other));
  other = int4;
  other.bits = 3;
  other.offset = 4;
  EXPECT_FALSE(accepts(other));
  other = int4;
  other.codebook = Codebook::kIq4Nl;
  EXPECT_FALSE(accepts(other));
  other = int4;
  other.zero_kind = ZeroKind::kMin;
  EXPECT_FALSE(accepts(other));
}

}  // namespace
}  // namespace quire
