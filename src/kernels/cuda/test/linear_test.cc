#include "kernels/cuda/test/linear_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/cuda/linear/dense_linear.h"
#include "kernels/cuda/linear/few_rows_linear.h"
#include "kernels/cuda/linear/plain_linear.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::random_floats;

class GpuLinear : public gpu_test::GpuLinearTest {
 protected:
  // Returns memory with the bf16 rows of `weight`, packed in two parts.
  void* packed(const PackedWeight& shape, const std::vector<float>& dense, bool transposed) {
    PackedWeight weight{shape.spec, poisoned(shape.spec.n * shape.spec.k * 2)};
    const int64_t half = transposed ? shape.spec.n : shape.spec.n / 2;
    pack_weight_rows(stream(), weight,
                     {.rows = dense.data(),
                      .dtype = DType::kF32,
                      .first_row = 0,
                      .num_rows = half,
                      .transposed = transposed});
    if (half < shape.spec.n) {
      pack_weight_rows(stream(), weight,
                       {.rows = dense.data() + half * shape.spec.k,
                        .dtype = DType::kF32,
                        .first_row = half,
                        .num_rows = shape.spec.n - half});
    }
    return weight.data;
  }
};

TEST_F(GpuLinear, MatchesReference) {
  for (const kernel_cases::LinearCase& c : kernel_cases::linear_cases()) {
    const PackedWeight shape{{.n = c.n, .k = c.k, .compute = ComputeType::kBF16}, nullptr};
    const auto dense = rounded(random_floats(1, c.n * c.k));
    std::vector<float> source(dense.size());  // in the checkpoint's order
    for (int64_t n = 0; n < c.n; ++n) {
      for (int64_t k = 0; k < c.k; ++k)
        source[c.transposed ? k * c.n + n : n * c.k + k] = dense[n * c.k + k];
    }
    const auto x = rounded(random_floats(2, c.m * c.k));
    for (const DType y_type : {DType::kF32, DType::kBF16}) {
      const PackedWeight weight{shape.spec, packed(shape, source, c.transposed)};
      // Allows for float sums of k products below 1, and for rounding the result to y's type.
      const double size = std::sqrt(static_cast<double>(c.k)) + 2.0;
      const double tolerance =
          static_cast<double>(c.k) * 0x1p-22 + size * (y_type == DType::kBF16 ? 0x1p-8 : 0.0);
      expect_reference(c, weight, x, dense, y_type, tolerance);
    }
  }
}

// Compares a product of strided rows with the reference: accumulated if y is float, else with a
// bias.
class GpuOwnLinear : public GpuLinear {
 protected:
  void expect_product(int64_t m, int64_t n, int64_t k, DType y_type, int64_t y_stride,
                      const std::function<void(const LinearParams&)>& product) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
    const bool adds = y_type == DType::kF32;
    const int64_t x_stride = k + 8;
    const auto x = rounded(random_floats(5, m * x_stride));
    const auto dense = rounded(random_floats(6, n * k));
    const auto bias = random_floats(7, n);
    auto want = rounded(random_floats(8, m * y_stride));
    PackedWeight weight{{.n = n, .k = k, .compute = ComputeType::kBF16}, nullptr};
    weight.data = upload_as(DType::kBF16, dense).data();
    LinearParams p{.x = upload_as(DType::kBF16, x),
                   .x_stride = x_stride,
                   .weight = &weight,
                   .bias = adds ? nullptr : upload(bias),
                   .y = upload_as(y_type, want),
                   .y_stride = y_stride,
                   .accumulate = adds,
                   .num_rows = m};
    product(p);
    const auto got = download_floats(p.y, m * y_stride);
    p.x = x.data();
    p.bias = adds ? nullptr : bias.data();
    p.y = want.data();
    ref::linear(p, dense.data(), DType::kF32);
    const double size = std::sqrt(static_cast<double>(k)) + 2.0;
    const double tolerance =
        static_cast<double>(k) * 0x1p-22 + size * (y_type == DType::kBF16 ? 0x1p-8 : 0.0);
    ASSERT_TRUE(kernel_test::close(got.data(), want.data(), m * y_stride, tolerance));
  }
};

// The kernel that linear() may use for a few rows, called directly: odd numbers of outputs, fewer
// chunks of K than it has warps, strided rows, biases, and sums that are accumulated.
TEST_F(GpuOwnLinear, FewRowsMatchReference) {
  const struct {
    int64_t m, n, k;
  } shapes[] = {{1, 16, 32}, {1, 33, 96}, {3, 1, 256}, {8, 40, 288}, {9, 17, 1056}, {16, 50, 512}};
  for (const auto& [m, n, k] : shapes) {
    for (const DType y_type : {DType::kF32, DType::kBF16}) {
      expect_product(m, n, k, y_type, n + 3, [&](const LinearParams& p) {
        ASSERT_TRUE(cuda::fits_few_rows(p));
        cuda::few_rows_linear(stream(), p);
      });
    }
  }
}

TEST_F(GpuOwnLinear, PlainMatchesReference) {
  const struct { int64_t m, n, k; } shapes[] = {{1, 16, 8}, {3, 33, 12}, {9, 5, 100}};
  for (const auto& [m, n, k] : shapes) {
    for (const DType y_type : {DType::kF32, DType::kBF16}) {
      expect_product(m, n, k, y_type, n + 3,
                     [&](const LinearParams& p) { cuda::plain_linear(stream(), p); });
    }
  }
}

// A head of 12 dims begins in the middle of a piece of 16 bytes.
TEST_F(GpuOwnLinear, OperandsMayBeginAnywhere) {
  constexpr int64_t kRows = 5, kHeads = 3, kDims = 12, kOutputs = 6;
  const auto x = rounded(random_floats(11, kRows * kHeads * kDims));
  const auto dense = rounded(random_floats(12, kOutputs * kDims));
  const std::vector<float> poison(static_cast<size_t>(kRows * kHeads * kOutputs), 7.0f);
  PackedWeight weight{{.n = kOutputs, .k = kDims, .compute = ComputeType::kBF16}, nullptr};
  weight.data = upload_as(DType::kBF16, dense).data();
  const Activations from = upload_as(DType::kBF16, x);
  const Activations to = upload_as(DType::kF32, poison);
  for (int64_t head = 0; head < kHeads; ++head) {
    linear(stream(), {.x = ConstActivations(from).from(head * kDims),
                      .x_stride = kHeads * kDims,
                      .weight = &weight,
                      .y = to.from(head * kOutputs),
                      .y_stride = kHeads * kOutputs,
                      .num_rows = kRows,
                      .workspace = poisoned(linear_workspace_bytes(stream(), kRows, weight.spec))});
  }
  const auto got = download_floats(to, kRows * kHeads * kOutputs);
  for (int64_t i = 0; i < kRows * kHeads * kOutputs; ++i) {
    const int64_t row = i / kOutputs, output = i % kOutputs;  // rows of heads
    double want = 0;
    for (int64_t k = 0; k < kDims; ++k)
      want += static_cast<double>(x[static_cast<size_t>(row * kDims + k)]) *
              static_cast<double>(dense[static_cast<size_t>(output * kDims + k)]);
    EXPECT_NEAR(got[static_cast<size_t>(i)], want, 1e-5) << i;
  }
}

class GpuDenseLinear : public GpuOwnLinear {
 protected:
  void SetUp() override { open_hopper(); }
};

// Every width of a tile, one and two warpgroups, blocks that take several tiles, numbers of rows,
// outputs and inputs that do not fill tiles, and y written in vectors and element by element.
TEST_F(GpuDenseLinear, MatchesReference) {
  const struct {
    int64_t m, n, k;
  } shapes[] = {{1, 8, 64},    {3, 16, 72},   {9, 32, 136},   {20, 47, 264},  {40, 64, 128},
                {5, 100, 200}, {64, 104, 64}, {1, 232, 128},  {33, 513, 192}, {65, 32, 128},
                {70, 41, 72},  {128, 64, 64}, {130, 96, 328}, {200, 700, 64}, {300, 264, 72}};
  for (const auto& [m, n, k] : shapes) {
    for (const DType y_type : {DType::kF32, DType::kBF16}) {
      for (const int64_t y_stride : {(n + 7) / 8 * 8, n + 3}) {
        expect_product(m, n, k, y_type, y_stride, [&](const LinearParams& p) {
          ASSERT_TRUE(cuda::fits_dense_linear(device_->stream(), p));
          cuda::dense_linear(stream(), p);
        });
      }
    }
  }
}

// A gated product has the bits of the product followed by the activation.
TEST_F(GpuDenseLinear, GatesAsTheActivationDoes) {
  const struct {
    int64_t m, ffn, k;
  } shapes[] = {{1, 8, 64},    {5, 24, 72},   {64, 60, 136},
                {70, 112, 64}, {130, 33, 64}, {200, 300, 72}};
  for (const auto& [m, ffn, k] : shapes) {
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      SCOPED_TRACE(::testing::Message() << m << " x 2 x " << ffn << " x " << k);
      PackedWeight weight{{.n = 2 * ffn, .k = k, .compute = ComputeType::kBF16}, nullptr};
      weight.data = upload_as(DType::kBF16, random_floats(6, 2 * ffn * k)).data();
      const Activations product{poisoned(m * 2 * ffn * 2), DType::kBF16};
      const Activations apart{poisoned(m * ffn * 2), DType::kBF16};
      LinearParams p{.x = upload_as(DType::kBF16, random_floats(5, m * k)),
                     .x_stride = k,
                     .weight = &weight,
                     .bias = upload(random_floats(7, 2 * ffn)),
                     .y = product,
                     .y_stride = 2 * ffn,
                     .num_rows = m};
      cuda::dense_linear(stream(), p);
      quire::activation(
          stream(),
          {.x = product, .out = apart, .activation = activation, .num_tokens = m, .ffn_size = ffn});
      const LinearGate gate{.activation = activation};
      p.y = {poisoned(m * ffn * 2), DType::kBF16};
      p.y_stride = ffn;
      p.gate = &gate;
      ASSERT_TRUE(linear_gates(stream(), weight.spec));
      linear(stream(), p);
      EXPECT_EQ(download<uint16_t>(p.y.data(), m * ffn), download<uint16_t>(apart.data(), m * ffn));
    }
  }
}

// Products for the determinism law (L4), computed by linear() on a GPU in the shapes of an 8B
// model.
struct BitsCase {
  int64_t n, k;
  std::vector<int64_t> rows;
};
std::vector<BitsCase> bits_cases(bool is_emulated) {
  if (is_emulated) return {{264, 136, {1, 9, 65, 200}}, {48, 72, {8, 64, 130}}};
  return {{6144, 4096, {1, 2, 8, 9, 16, 33, 64, 65, 128, 200, 256, 1000, 4096, 8192}},
          {28672, 4096, {1, 17, 64, 100, 512}},
          {4096, 14336, {1, 16, 64, 129, 256, 1024}}};
}

// With any number of rows, each row has the same bits as among the most rows, for both types of y,
// with and without a bias.
TEST_F(GpuDenseLinear, BitsDoNotDependOnTheNumberOfRows) {
  device_->stream().set_deterministic(true);
  const bool is_emulated = device_->stream().emulated() != nullptr;
  for (const BitsCase& c : bits_cases(is_emulated)) {
    const int64_t most = c.rows.back();
    PackedWeight weight{{.n = c.n, .k = c.k, .compute = ComputeType::kBF16}, nullptr};
    weight.data = upload_as(DType::kBF16, random_floats(6, c.n * c.k)).data();
    const Activations x = upload_as(DType::kBF16, random_floats(5, most * c.k));
    const float* bias = upload(random_floats(7, c.n));
    void* workspace = poisoned(linear_workspace_bytes(stream(), most, weight.spec));
    for (const DType y_type : {DType::kBF16, DType::kF32}) {
      const bool adds = y_type == DType::kF32;
      const int64_t row_bytes = c.n * size_bytes(y_type);
      const auto product = [&](int64_t rows) {
        const LinearParams p{.x = x,
                             .x_stride = c.k,
                             .weight = &weight,
                             .bias = adds ? nullptr : bias,
                             .y = {upload(std::vector<uint8_t>(rows * row_bytes, 0)), y_type},
                             .y_stride = c.n,
                             .accumulate = adds,
                             .num_rows = rows,
                             .workspace = workspace};
        is_emulated ? cuda::dense_linear(stream(), p) : linear(stream(), p);
        auto bytes = download<uint8_t>(p.y.data(), rows * row_bytes);
        arenas_.pop_back();
        return bytes;
      };
      const std::vector<uint8_t> want = product(most);
      for (const int64_t rows : c.rows) {
        const std::vector<uint8_t> got = product(rows);
        EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin()))
            << rows << " rows of " << c.n << " x " << c.k << ", " << to_string(y_type);
      }
    }
  }
}

}  // namespace
}  // namespace quire
