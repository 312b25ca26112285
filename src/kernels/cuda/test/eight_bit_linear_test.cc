// Products of eight-bit codes on Hopper: FP8 in groups of inputs, and int8, compared with the
// kernel for other GPUs.
#include "kernels/cuda/linear/eight_bit_linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/float8.h"
#include "kernels/api/activation.h"
#include "kernels/api/fp8_support.h"
#include "kernels/cuda/linear/fp8_linear.h"
#include "kernels/cuda/linear/int8_linear.h"
#include "kernels/cuda/test/linear_test.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::random_floats;

WeightSpec groups_spec(int64_t n, int64_t k) {
  return {.n = n,
          .k = k,
          .dtype = DType::kF8E4M3,
          .quant = {.bits = 8, .codebook = Codebook::kE4M3, .group_size = cuda::kFp8GroupInputs}};
}
WeightSpec int8_spec(int64_t n, int64_t k) {
  return {.n = n,
          .k = k,
          .dtype = DType::kI8,
          .quant = {.bits = 8, .offset = 128, .group_size = int64_t{1} << 40}};
}

// Random codes and scales in the GPU's layout, and the numbers that they encode.
struct CodeWeight {
  std::vector<uint8_t> bytes;
  std::vector<float> dense;

  CodeWeight(const WeightSpec& spec, uint64_t seed)
      : bytes(static_cast<size_t>(cuda::fp8_weight_layout(spec).num_bytes), 0) {
    const cuda::Fp8WeightLayout layout = cuda::fp8_weight_layout(spec);
    const bool is_fp8 = cuda::has_fp8_products(spec);
    const auto values = random_floats(seed, spec.n * spec.k, is_fp8 ? 448.0f : 127.0f);
    auto* scales = reinterpret_cast<float*>(bytes.data() + layout.scales_at);
    for (int64_t i = 0; i < spec.n * spec.k; ++i) {
      const int64_t row = i / spec.k;
      const int64_t group = is_fp8 ? i % spec.k / cuda::kFp8GroupInputs : 0;
      float& scale = scales[group * layout.scale_stride + row];
      scale = 0.001f * static_cast<float>(1 + (row + 3 * group) % 7);
      const float value = values[static_cast<size_t>(i)];
      const auto code = is_fp8 ? float_to_float8(Float8::kE4M3, value)
                               : static_cast<uint8_t>(static_cast<int8_t>(std::lrint(value)));
      bytes[static_cast<size_t>(i)] = code;
      dense.push_back(scale * (is_fp8 ? float8_to_float(Float8::kE4M3, code)
                                      : static_cast<float>(static_cast<int8_t>(code))));
    }
  }
};

// The quantized form of a group of 128 inputs, the largest of which becomes 448.
struct QuantizedGroup {
  float scale = 1.0f;
  std::vector<uint8_t> codes;

  QuantizedGroup(const float* x, int64_t count) {
    float largest = 0.0f;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i]));
    if (largest > 0.0f) scale = largest / 448.0f;
    for (int64_t i = 0; i < count; ++i)
      codes.push_back(float_to_float8(Float8::kE4M3, x[i] / scale));
  }
};

class GpuEightBitLinear : public gpu_test::GpuLinearTest {
 protected:
  void SetUp() override { open_hopper(); }
  bool is_emulated() { return device_->stream().emulated() != nullptr; }
};

TEST_F(GpuEightBitLinear, RoundsGroupsAsTheHostDoes) {
  constexpr int64_t kRows = 3, kGroups = 4, kK = 272;
  for (const int64_t stride : {kK, kK + 3}) {
    auto x = rounded(random_floats(5, kRows * stride, 30.0f));
    std::fill_n(x.begin() + stride + 128, 128, 0.0f);  // a group of zeros
    x[2 * stride + 7] = std::numeric_limits<float>::infinity();
    const cuda::Fp8Rows rows =
        cuda::fp8_rows(poisoned(cuda::fp8_rows_bytes(kRows, kK, kGroups)), kRows, kK);
    cuda::quantize_groups(stream(), upload_as(DType::kBF16, x), stride, kRows, kK, kGroups, rows);
    const auto codes = download<uint8_t>(rows.codes, kRows * kK);
    const auto scales = download<float>(rows.scales, kGroups * rows.scale_stride);
    EXPECT_EQ(codes[2 * kK + 7] & 0x7f, 0x7f);  // NaN
    for (int64_t i = 1; i < kRows * kGroups; ++i) {
      const int64_t row = i / kGroups, group = i % kGroups, input = group * 128;
      if (row == 2 && group == 0) continue;
      const QuantizedGroup want(x.data() + row * stride + input,
                                std::clamp<int64_t>(kK - input, 0, 128));
      EXPECT_EQ(scales[group * rows.scale_stride + row], want.scale);
      EXPECT_TRUE(
          std::equal(want.codes.begin(), want.codes.end(), codes.begin() + row * kK + input));
    }
  }
}

// Tiles of one and two warpgroups, blocks that take several tiles, numbers of rows and outputs that
// do not fill tiles, even and odd numbers of groups, a last group with fewer inputs, biases, and
// sums that are accumulated.
TEST_F(GpuEightBitLinear, ProductsOfGroupsMatchReference) {
  const kernel_cases::LinearCase cases[] = {{1, 16, 256},
                                            {3, 48, 144, true},
                                            {9, 64, 272, false, true},
                                            {64, 112, 384, true},
                                            {65, 32, 160, false, true},
                                            {130, 96, 272, true},
                                            {1, 2128, 400},
                                            {200, 272, 144},
                                            {40, 176, 528, true}};
  for (const kernel_cases::LinearCase& c : cases) {
    const WeightSpec spec = groups_spec(c.n, c.k);
    ASSERT_TRUE(cuda::fits_fp8_products(spec) && supports_fp8_products(stream(), spec));
    const CodeWeight source(spec, 5);
    const PackedWeight weight{spec, upload(source.bytes)};
    const auto x = rounded(random_floats(2, c.m * c.k));
    std::vector<float> seen;  // the quantized activations
    for (int64_t at = 0; at < c.m * c.k;) {
      const int64_t count = std::min(cuda::kFp8GroupInputs, c.k - at % c.k);
      const QuantizedGroup group(x.data() + at, count);
      for (const uint8_t code : group.codes)
        seen.push_back(float8_to_float(Float8::kE4M3, code) * group.scale);
      at += count;
    }
    const DType y_type = c.accumulate || c.m % 2 == 0 ? DType::kF32 : DType::kBF16;
    const double size = gpu_test::magnitude(seen, source.dense, c.m, c.n, c.k);
    // Tensor cores keep 14 bits of a group's sum (quantize_rows_test.cc).
    const double tolerance =
        size * 0x1p-11 + (size + 2.0) * (y_type == DType::kBF16 ? 0x1p-8 : 0x1p-22);
    expect_reference(c, weight, x, source.dense, y_type, tolerance, &seen);
  }
}

// The kernel for other GPUs computes the same bits.
TEST_F(GpuEightBitLinear, ProductsOfInt8AreExact) {
  const struct {
    int64_t m, n, k;
  } shapes[] = {{1, 16, 144}, {9, 47, 272}, {70, 40, 64}, {130, 264, 16}};
  for (const auto& [m, n, k] : shapes) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
    const WeightSpec spec = int8_spec(n, k);
    const PackedWeight weight{spec, upload(CodeWeight(spec, 5).bytes)};
    const auto product = [&, rows = m, outputs = n](auto linear) {
      const Activations y(upload(std::vector<float>(static_cast<size_t>(rows * outputs), 0.5f)),
                          DType::kF32);
      linear(stream(),
             LinearParams{.x = upload_as(DType::kBF16, random_floats(2, rows * spec.k)),
                          .x_stride = spec.k,
                          .weight = &weight,
                          .bias = upload(random_floats(3, outputs)),
                          .y = y,
                          .y_stride = outputs,
                          .accumulate = true,
                          .num_rows = rows,
                          .workspace = poisoned(linear_workspace_bytes(stream(), rows, spec))});
      return download<uint32_t>(y.data(), rows * outputs);
    };
    EXPECT_EQ(product(cuda::eight_bit_linear), product(cuda::int8_linear));
  }
}

// A gated product has the bits of the product followed by the activation.
TEST_F(GpuEightBitLinear, GatesAsTheActivationDoes) {
  const struct {
    int64_t m, ffn, k;
  } shapes[] = {{1, 8, 256}, {5, 24, 272}, {70, 112, 144}, {130, 40, 384}};
  for (const auto& [m, ffn, k] : shapes) {
    for (const WeightSpec& spec : {groups_spec(2 * ffn, k), int8_spec(2 * ffn, k)}) {
      SCOPED_TRACE(::testing::Message() << m << " x 2 x " << ffn << " x " << k);
      const PackedWeight weight{spec, upload(CodeWeight(spec, 6).bytes)};
      const Activation activation = m % 2 == 0 ? Activation::kSilu : Activation::kGeluTanh;
      const Activations product{poisoned(m * 2 * ffn * 2), DType::kBF16};
      const Activations apart{poisoned(m * ffn * 2), DType::kBF16};
      LinearParams p{.x = upload_as(DType::kBF16, random_floats(5, m * k)),
                     .x_stride = k,
                     .weight = &weight,
                     .bias = upload(random_floats(7, 2 * ffn)),
                     .y = product,
                     .y_stride = 2 * ffn,
                     .num_rows = m,
                     .workspace = poisoned(linear_workspace_bytes(stream(), m, spec))};
      linear(stream(), p);
      quire::activation(
          stream(),
          {.x = product, .out = apart, .activation = activation, .num_tokens = m, .ffn_size = ffn});
      const LinearGate gate{.activation = activation};
      p.y = {poisoned(m * ffn * 2), DType::kBF16};
      p.y_stride = ffn;
      p.gate = &gate;
      ASSERT_TRUE(linear_gates(stream(), spec));
      linear(stream(), p);
      EXPECT_EQ(download<uint16_t>(p.y.data(), m * ffn), download<uint16_t>(apart.data(), m * ffn));
    }
  }
  EXPECT_FALSE(linear_gates(stream(), int8_spec(40, 64)));
}

// Law L4: with any number of rows, each row has the same bits as among the most rows.
TEST_F(GpuEightBitLinear, BitsDoNotDependOnTheNumberOfRows) {
  struct Case {
    int64_t n, k;
    std::vector<int64_t> rows;
  };
  const Case emulated{144, 272, {1, 9, 65, 200}};
  const Case shapes[] = {{6144, 4096, {1, 2, 8, 9, 33, 64, 65, 128, 200, 256, 1000, 4096}},
                         {28672, 4096, {1, 17, 64, 100, 512}},
                         {4096, 14336, {1, 16, 64, 129, 200, 1024}}};
  for (const Case& c : is_emulated() ? std::vector<Case>{emulated}
                                     : std::vector<Case>(std::begin(shapes), std::end(shapes))) {
    for (const WeightSpec& spec : {groups_spec(c.n, c.k), int8_spec(c.n, c.k)}) {
      const int64_t most = c.rows.back();
      const PackedWeight weight{spec, upload(CodeWeight(spec, 6).bytes)};
      const Activations x = upload_as(DType::kBF16, random_floats(5, most * c.k));
      void* workspace = poisoned(linear_workspace_bytes(stream(), most, spec));
      const auto product = [&](int64_t rows) {
        const Activations y{poisoned(rows * c.n * 2), DType::kBF16};
        linear(stream(), {.x = x,
                          .x_stride = c.k,
                          .weight = &weight,
                          .y = y,
                          .y_stride = c.n,
                          .num_rows = rows,
                          .workspace = workspace});
        auto bits = download<uint16_t>(y.data(), rows * c.n);
        arenas_.pop_back();
        return bits;
      };
      const auto want = product(most);
      for (const int64_t rows : c.rows) {
        const auto got = product(rows);
        EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin()))
            << rows << " rows of " << c.n << " x " << c.k << ", " << to_string(spec.dtype);
      }
    }
  }
}

TEST(EightBitLinear, TakesGroupsOf128InputsOnHopper) {
  EXPECT_TRUE(cuda::fits_fp8_products(groups_spec(64, 256)));
  EXPECT_EQ(cuda::fp8_groups(groups_spec(64, 272)), 4);
  EXPECT_EQ(cuda::fp8_groups(groups_spec(64, 128)), 1);  // one scale per output
  EXPECT_EQ(cuda::fp8_weight_layout(groups_spec(64, 384)).num_bytes, 64 * 384 + 4 * 64 * 4);
  const auto ampere = gpu_test::open_test_device({.compute_capability = 80});
  if (!ampere.ok() || (*ampere)->info().gpu.compute_capability == 90)
    GTEST_SKIP() << "SKIPPED: no GPU before Hopper";
  EXPECT_FALSE(supports_fp8_products((*ampere)->stream(), groups_spec(64, 256)));
}

}  // namespace
}  // namespace quire
