#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace quire {
namespace {

TEST(Arena, HandsOutAlignedZeroedMemory) {
  Result<Arena> arena = Arena::create(1000);
  ASSERT_TRUE(arena.ok());
  float* a = arena->allocate<float>(3);
  float* b = arena->allocate<float>(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % Arena::kAlignment, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % Arena::kAlignment, 0u);
  EXPECT_EQ(b[99], 0.0f);
  EXPECT_EQ(arena->used_bytes(), 64 + 448);
}

TEST(ArenaDeathTest, OverrunIsABug) {
  Result<Arena> arena = Arena::create(64);
  ASSERT_TRUE(arena.ok());
  EXPECT_DEATH(arena->allocate<float>(17), "asked for 68");
}

}  // namespace
}  // namespace quire
