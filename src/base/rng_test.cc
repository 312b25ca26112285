#include "base/rng.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// The vectors are those of the reference implementation (Random123 kat_vectors, philox4x32 10
// rounds).
TEST(Philox, MatchesPublishedVectors) {
  EXPECT_EQ(philox4x32(0, {0, 0, 0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32(0xffffffffffffffffULL, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822ULL, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SixteenBlocksAtOnceAreTheSameBlocks) {
  std::array<uint32_t, 64> words;
  const std::array<uint32_t, 4> counter{7, 1, 0xfffffff8, 3};  // wraps
  philox4x32_x16(0x123456789abcdefULL, counter, words);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(words[i], philox4x32(0x123456789abcdefULL, {7, 1, counter[2] + i / 4, 3})[i % 4]);
  }
}

TEST(Philox, UniformIsOpenAndSpread) {
  double sum = 0;
  for (uint32_t i = 0; i < 10000; ++i) {
    const float u = uniform_open(42, 7, i);
    ASSERT_GT(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

}  // namespace
}  // namespace quire
