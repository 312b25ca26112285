#include "exec/gpu/adapters/adapter_memory.h"

#include <gtest/gtest.h>

#include <random>

#include "tensor/arena.h"

namespace quire {
namespace {

TEST(AdapterMemory, PiecesComeBackWhole) {
  AdapterMemory memory(3, 640);
  const auto first = memory.take(100);
  const auto second = memory.take(256);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->slot, 0);
  EXPECT_EQ(second->slot, 1);
  EXPECT_EQ(second->offset, 128);
  EXPECT_EQ(memory.largest_free_bytes(), 256);
  EXPECT_FALSE(memory.take(257));
  memory.give_back(*first);
  memory.give_back(*second);
  EXPECT_EQ(memory.largest_free_bytes(), 640);
}

TEST(AdapterMemory, SlotsAreBounded) {
  AdapterMemory memory(1, 640);
  const auto only = memory.take(0);
  ASSERT_TRUE(only);
  EXPECT_FALSE(memory.take(64));
  memory.give_back(*only);
  EXPECT_TRUE(memory.take(640));
}

// Compares the memory with a list that says which piece has each byte.
TEST(AdapterMemory, NoTwoOverlap) {
  constexpr int64_t kUnit = Arena::kAlignment;
  constexpr int64_t kUnits = 40;
  std::mt19937 random(7);
  AdapterMemory memory(12, kUnits * kUnit);
  std::vector<int> owner(kUnits, -1);
  std::vector<std::pair<int, AdapterMemory::Place>> taken;
  const auto mark = [&](const AdapterMemory::Place& place, int from, int to) {
    for (int64_t i = 0; i < place.num_bytes / kUnit; ++i) {
      int& who = owner[static_cast<size_t>(place.offset / kUnit + i)];
      ASSERT_EQ(who, from);
      who = to;
    }
  };
  for (int round = 0; round < 2000; ++round) {
    if (!taken.empty() && random() % 2 == 0) {
      std::swap(taken[random() % taken.size()], taken.back());
      mark(taken.back().second, taken.back().first, -1);
      memory.give_back(taken.back().second);
      taken.pop_back();
      continue;
    }
    const int64_t units = 1 + static_cast<int64_t>(random() % 9);
    int64_t largest = 0;
    for (int64_t i = 0, run = 0; i < kUnits; ++i) {
      run = owner[static_cast<size_t>(i)] < 0 ? run + 1 : 0;
      largest = std::max(largest, run);
    }
    ASSERT_EQ(memory.largest_free_bytes(), largest * kUnit);
    const auto place = memory.take(units * kUnit);
    ASSERT_EQ(place.has_value(), taken.size() < 12 && largest >= units);
    if (!place) continue;
    mark(*place, -1, round);
    taken.emplace_back(round, *place);
  }
}

}  // namespace
}  // namespace quire
