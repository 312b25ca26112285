#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "kernels/cuda/quant/quant_shapes.h"
#include "kernels/cuda/quant/quant_weight.h"
#include "kernels/cuda/test/linear_test.h"
#include "kernels/quant_rows.h"
#include "kernels/testing/quant_cases.h"
#include "kernels/testing/quant_test_rows.h"

namespace quire {
namespace {

using gpu_test::magnitude;
using gpu_test::rounded;
using kernel_cases::LinearCase;
using kernel_cases::QuantFormat;
using kernel_test::QuantSource;
using kernel_test::random_floats;

// Every format in the form that the GPU's kernel takes, which may be simplified; formats with
// groups of 16 inputs are not supported.
struct Format {
  const char* name;
  QuantSpec stored;
  QuantSpec packed;
};

bool is_taken(const QuantSpec& quant) {
  return cuda::check_quant_weight({.n = 16, .k = 1024, .quant = quant}).ok();
}

std::vector<Format> formats() {
  std::vector<Format> taken;
  for (const QuantFormat& format : kernel_cases::quant_formats()) {
    const QuantSpec& stored = format.spec;
    const QuantSpec packed = is_taken(stored) ? stored : simpler_quant(stored);
    if (is_taken(packed)) taken.push_back({format.name, stored, packed});
  }
  return taken;
}

class GpuQuantLinear : public gpu_test::GpuLinearTest {
 protected:
  // Packs the weight in two parts, the second part first.
  PackedWeight packed(const Format& format, const QuantSource& source) {
    WeightSpec spec = source.spec;
    spec.compute = ComputeType::kBF16;
    spec.quant = format.packed;
    const auto bytes = static_cast<size_t>(cuda::quant_weight_layout(spec).num_bytes);
    std::vector<uint8_t> host(bytes, 0);
    const PackedWeight staged{spec, host.data()};
    const bool as_stored = format.packed == format.stored;
    SimplerRows simpler(format.stored, spec.k);
    for (const auto& [begin, end] :
         {std::pair{spec.n / 3, spec.n}, std::pair{int64_t{0}, spec.n / 3}}) {
      const QuantRows rows = source.rows(begin, end);
      cuda::pack_quant_weight(staged, as_stored ? rows : simpler.of(rows));
    }
    if (spec.quant.has_column_order) cuda::pack_quant_weight_order(staged, source.order.data());
    return {spec, upload(host)};
  }

  void expect_reference_of(const Format& format, const LinearCase& c) {
    SCOPED_TRACE(format.name);
    const QuantSource source({.n = c.n, .k = c.k, .quant = format.stored}, 7);
    const auto dense = source.dense();
    const auto x = rounded(random_floats(2, c.m * c.k));
    const DType y_type = c.m % 2 == 0 ? DType::kF32 : DType::kBF16;
    double size = magnitude(x, dense, c.m, c.n, c.k);
    if (format.stored.zero_kind == ZeroKind::kMin)
      size += magnitude(x, source.minima(), c.m, c.n, c.k);
    const double tolerance =
        size * 0x1p-19 + (size + 2.0) * (y_type == DType::kBF16 ? 0x1p-8 : 0x1p-22);
    expect_reference(c, packed(format, source), x, dense, y_type, tolerance);
  }

  // Checks that a row has the same bits alone, among few and among many rows, which use blocks of
  // other shapes (law L4).
  void expect_same_bits(const Format& format, int64_t n, int64_t k, int64_t num_rows,
                        const std::vector<int64_t>& counts) {
    const QuantSource source({.n = n, .k = k, .quant = format.stored}, 7);
    const PackedWeight on_device = packed(format, source);
    const Activations x = upload_as(DType::kBF16, random_floats(2, num_rows * k));
    void* workspace = poisoned(linear_workspace_bytes(stream(), num_rows, on_device.spec));
    const auto run = [&](int64_t first, int64_t count) {
      auto* y = static_cast<float*>(poisoned(count * n * 4));
      linear(stream(), {.x = ConstActivations(static_cast<const bfloat16*>(x.data()) + first * k,
                                              DType::kBF16),
                        .x_stride = k,
                        .weight = &on_device,
                        .y = y,
                        .y_stride = n,
                        .num_rows = count,
                        .workspace = workspace});
      return download<float>(y, count * n);
    };
    const auto all = run(0, num_rows);
    for (const int64_t count : counts) {
      const auto some = run(num_rows - count, count);
      ASSERT_TRUE(
          kernel_test::same_bits(some.data(), all.data() + (num_rows - count) * n, count * n))
          << format.name << " " << count;
    }
  }
};

// A GPU that multiplies many rows by warpgroups.
class HopperQuantLinear : public GpuQuantLinear {
 protected:
  void SetUp() override { open({.compute_capability = 90}); }
};

TEST_F(GpuQuantLinear, MatchesReferenceForEveryFormat) {
  ASSERT_GE(formats().size(), 20u);
  for (const Format& format : formats())
    for (const LinearCase& c : kernel_cases::linear_cases()) expect_reference_of(format, c);
}

TEST_F(GpuQuantLinear, RowsHaveTheSameBitsHoweverManyThereAre) {
  for (const Format& format : formats()) expect_same_bits(format, 72, 700, 45, {1, 9, 20, 40});
}

// More rows than quant_linear.cu's kernel takes on Hopper, and more outputs than a block has;
// results that are stored one by one, accumulated, or stored in pieces of 16 bytes.
TEST_F(HopperQuantLinear, ManyRowsMatchReferenceForEveryFormat) {
  for (const Format& format : formats())
    for (const LinearCase& c : {LinearCase{67, 40, 96, true, true}, LinearCase{130, 210, 300},
                                LinearCase{69, 24, 96, true}, LinearCase{35, 24, 160, true}})
      expect_reference_of(format, c);
}

TEST_F(HopperQuantLinear, FewerRowsMatchReference) {
  const std::vector<Format> all = formats();
  for (const LinearCase& c : {LinearCase{17, 280, 96}, LinearCase{64, 37, 96, true, true}})
    expect_reference_of(all.front(), c);
}

// Parts of K that separate blocks multiply, and whose sums are then added.
TEST_F(HopperQuantLinear, PartsMatchReference) {
  for (const int32_t num_sms : {3, 5, 9}) {
    open({.compute_capability = 90, .num_sms = num_sms});
    for (const LinearCase& c : {LinearCase{20, 40, 700, true, true}, LinearCase{65, 24, 1100}})
      expect_reference_of(formats().front(), c);
  }
}

// With all slices in one part, and with each slice in a part of its own.
TEST_F(HopperQuantLinear, RowsHaveTheSameBitsHoweverManyThereAre) {
  for (const Format& format : formats()) expect_same_bits(format, 24, 300, 65, {1, 17, 48});
  for (const int32_t num_sms : {1, 8}) {
    open({.compute_capability = 90, .num_sms = num_sms});
    expect_same_bits(formats().front(), 40, 700, 129, {1, 16, 17, 32, 48, 64, 65, 128});
  }
}

TEST(QuantShapes, NumbersOfRowsChooseTheirPanels) {
  EXPECT_EQ(cuda::quant_panel_rows(1), 0);
  EXPECT_EQ(cuda::quant_panel_rows(16), 0);
  EXPECT_EQ(cuda::quant_panel_rows(17), 32);
  EXPECT_EQ(cuda::quant_panel_rows(32), 32);
  EXPECT_EQ(cuda::quant_panel_rows(33), 64);
  EXPECT_EQ(cuda::quant_panel_rows(64), 64);
  EXPECT_EQ(cuda::quant_panel_rows(65), 128);
  EXPECT_EQ(cuda::quant_panel_rows(4096), 128);
}

// Returns the number of parts of a weight of [n, 64 * chunks] for the rows of a panel on an H200.
TEST(QuantShapes, PartsFillTheGpuWhereAddingThemCostsLess) {
  const auto parts = [](int64_t n, int64_t num_chunks, int panel_rows) {
    const int64_t outputs = cuda::panel_tiles(panel_rows) * int64_t{16};
    const int64_t num_items = (n + outputs - 1) / outputs;
    return cuda::quant_parts({.num_items = num_items,
                              .num_chunks = num_chunks,
                              .slice_bytes = num_items * outputs * panel_rows * 4,
                              .most_bytes = int64_t{32} << 20},
                             132);
  };
  EXPECT_EQ(parts(28672, 64, 64), 1);  // there are enough items
  EXPECT_EQ(parts(6144, 64, 64), 4);
  EXPECT_EQ(parts(4096, 224, 64), 8);
  EXPECT_EQ(parts(4096, 224, 32), 8);
  EXPECT_EQ(parts(4096, 4, 64), 1);  // too little time would be saved
  EXPECT_EQ(cuda::quant_parts({.num_items = 1, .num_chunks = 224, .slice_bytes = 1 << 16}, 132), 1);
  EXPECT_EQ(cuda::quant_parts({.num_items = 1, .num_chunks = 224, .most_bytes = 1 << 20}, 3), 2);
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
  other.zero_kind = ZeroKind::kInteger;
  EXPECT_FALSE(accepts(other));  // also with an offset
}

// Rows that are packed as weights of their own and copied to their places make up the whole weight.
TEST(QuantWeight, PiecesOfRowsMakeTheWholeWeight) {
  for (const Format& format : formats()) {
    const int64_t k = format.stored.group_size < 1024 ? 300 : 1000;
    const QuantSource source({.n = 90, .k = k, .quant = format.stored}, 3);
    WeightSpec spec = source.spec;
    spec.quant = format.packed;
    const bool as_stored = format.packed == format.stored;
    SimplerRows simpler(format.stored, k);
    const auto rows_of = [&](int64_t begin, int64_t end) {
      const QuantRows rows = source.rows(begin, end);
      return as_stored ? rows : simpler.of(rows);
    };
    const auto bytes = static_cast<size_t>(cuda::quant_weight_layout(spec).num_bytes);
    std::vector<uint8_t> whole(bytes, 0), joined(bytes, 0);
    cuda::pack_quant_weight({spec, whole.data()}, rows_of(0, spec.n));
    for (const auto& [begin, end] : {std::pair{48, 90}, std::pair{0, 16}, std::pair{16, 48}}) {
      WeightSpec part = spec;
      part.n = end - begin;
      std::vector<uint8_t> own(static_cast<size_t>(cuda::quant_weight_layout(part).num_bytes), 0);
      QuantRows rows = rows_of(begin, end);
      rows.first_row = 0;
      cuda::pack_quant_weight({part, own.data()}, rows);
      for (const cuda::QuantPiece& piece : cuda::quant_pieces(spec, begin, part.n))
        std::copy_n(own.begin() + piece.from, piece.num_bytes, joined.begin() + piece.to);
    }
    EXPECT_EQ(whole, joined) << format.name;
  }
}

// The simplified form of rows encodes the same numbers, and dequantize_rows() returns them.
TEST(QuantRowsTest, SimplerRowsStandForTheSameNumbers) {
  for (const QuantFormat& format : kernel_cases::quant_formats()) {
    const WeightSpec stored{.n = 5, .k = 1000, .quant = format.spec};
    const QuantSource source(stored, 11);
    std::vector<float> want(5 * 1000), got(want.size());
    ref::dequantize(stored, source.rows(0, 5), want.data());
    dequantize_rows(stored, source.rows(0, 5), got.data());
    EXPECT_TRUE(kernel_test::same_bits(got.data(), want.data(), 5000)) << format.name;
    WeightSpec simpler = stored;
    simpler.quant = simpler_quant(format.spec);
    SimplerRows rows(format.spec, stored.k);
    ref::dequantize(simpler, rows.of(source.rows(0, 5)), got.data());
    EXPECT_TRUE(kernel_test::same_bits(got.data(), want.data(), 5000)) << format.name;
  }
}

}  // namespace
}  // namespace quire
