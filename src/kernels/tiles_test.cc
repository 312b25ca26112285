// Compares the software tile unit with the documentation of the instructions, in double precision
// and by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "kernels/cpu/simd/tiles_emulated.h"

namespace quire {
namespace {

using cpu::TileShapes;

// Returns shapes of registers 0 (C), 1 (A) and 2 (B) for m rows, k groups of 4 bytes and n columns.
TileShapes product_shapes(int m, int k, int n) {
  TileShapes shapes;
  shape_tile(shapes, 0, m, 4 * n);
  shape_tile(shapes, 1, m, 4 * k);
  shape_tile(shapes, 2, k, 4 * n);
  return shapes;
}

std::vector<uint8_t> random_bytes(uint64_t seed, int n) {
  std::vector<uint8_t> out(n);
  for (int i = 0; i < n; ++i) {
    out[i] = static_cast<uint8_t>(philox4x32(seed, {static_cast<uint32_t>(i), 0, 0, 0})[0]);
  }
  return out;
}

TEST(EmulatedTiles, Int8ProductsAreExactAtEveryShape) {
  for (const auto& [m, k, n] :
       {std::array{1, 1, 1}, {16, 16, 16}, {3, 16, 16}, {16, 5, 16}, {7, 2, 9}}) {
    const auto a = random_bytes(1, m * 4 * k);
    const auto b = random_bytes(2, k * 4 * n);
    std::vector<int32_t> c(m * n, -5);
    Tiles tiles(product_shapes(m, k, n));
    tiles.load<0>(c.data(), 4 * n);
    tiles.load<1>(a.data(), 4 * k);
    tiles.load<2>(b.data(), 4 * n);
    tiles.dot_s8<0, 1, 2>();
    tiles.store<0>(c.data(), 4 * n);
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        int32_t want = -5;
        for (int i = 0; i < 4 * k; ++i) {
          want += static_cast<int8_t>(a[row * 4 * k + i]) *
                  static_cast<int8_t>(b[i / 4 * 4 * n + 4 * column + i % 4]);
        }
        ASSERT_EQ(c[row * n + column], want) << m << " " << k << " " << n;
      }
    }
  }
}

// Computes one output, of a.size() / 2 pairs.
float dot_bf16(float c, const std::vector<float>& a, const std::vector<float>& b) {
  const int pairs = static_cast<int>(a.size()) / 2;
  std::vector<bfloat16> x, w;
  for (const float v : a) x.push_back(to_bfloat16(v));
  for (const float v : b) w.push_back(to_bfloat16(v));
  Tiles tiles(product_shapes(1, pairs, 1));
  tiles.load<0>(&c, 4);
  tiles.load<1>(x.data(), 4 * pairs);
  tiles.load<2>(w.data(), 4);
  tiles.dot_bf16<0, 1, 2>();
  tiles.store<0>(&c, 4);
  return c;
}

TEST(EmulatedTiles, Bf16SumsEvenAndOddApartBeforeC) {
  const float huge = 0x1p100f;
  // Even elements cancel among themselves; summed in memory order the 1 would be lost.
  EXPECT_EQ(dot_bf16(0, {huge, 1, -huge, 0}, {1, 1, 1, 1}), 1.0f);
  // (even + odd) is rounded before C is added: 2^24 + 1 rounds to 2^24, then -2^24 leaves 0.
  EXPECT_EQ(dot_bf16(-0x1p24f, {0x1p24f, 1}, {1, 1}), 0.0f);
  // C is added last, so 1 survives next to large partial sums.
  EXPECT_EQ(dot_bf16(1, {huge, -huge}, {1, 1}), 1.0f);
}

TEST(EmulatedTiles, Bf16MultiplyAddsAreFused) {
  // (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14; minus 1 + 2^-6 leaves exactly 2^-14, and so on down.
  const float x = 1.0f + 0x1p-7f;
  EXPECT_EQ(dot_bf16(0, {-1.0f - 0x1p-6f, 0, x, 0}, {1, 0, x, 0}), 0x1p-14f);
  // A product beyond the largest float that the running sum brings back: only a fused one is
  // finite.
  EXPECT_EQ(dot_bf16(0, {-0x1p127f, 0, 0x1p64f, 0}, {1.5f, 0, 0x1p64f, 0}), 0x1p126f);
}

TEST(EmulatedTiles, Bf16SubnormalsAreZero) {
  EXPECT_EQ(dot_bf16(0, {0x1p-127f, 0}, {1, 0}), 0.0f);                         // in A
  EXPECT_EQ(dot_bf16(0x1p-130f, {0, 0}, {1, 1}), 0.0f);                         // in C
  EXPECT_EQ(dot_bf16(0, {0x1p-70f, 0}, {0x1p-70f, 0}), 0.0f);                   // made
  EXPECT_TRUE(std::signbit(dot_bf16(-0.0f, {-0.0f, -0.0f}, {1, 1})) == false);  // 0 + -0 = 0
  EXPECT_TRUE(std::isnan(dot_bf16(0, {std::numeric_limits<float>::infinity(), 0}, {0, 0})));
}

TEST(EmulatedTiles, StoresItsShapeAndNoMore) {
  TileShapes shapes;
  shape_tile(shapes, 3, 2, 8);
  Tiles tiles(shapes);
  std::vector<uint8_t> out(64, 0xee);
  tiles.store<3>(out.data(), 32);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i % 32 < 8 ? 0 : 0xee);
}

TEST(EmulatedTilesDeathTest, StopsWhereTheHardwareWould) {
  TileShapes shapes = product_shapes(2, 3, 4);
  EXPECT_DEATH(
      {
        Tiles tiles(shapes);
        tiles.zero<5>();
      },
      "");                       // no shape
  shape_tile(shapes, 2, 4, 16);  // B with more k than A
  EXPECT_DEATH(
      {
        Tiles tiles(shapes);
        (tiles.dot_s8<0, 1, 2>());
      },
      "");
  shape_tile(shapes, 2, 17, 16);
  EXPECT_DEATH(Tiles tiles(shapes), "");
}

}  // namespace
}  // namespace quire
