#include "nn/experts/expert_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "nn/experts/slot_dealer.h"

namespace quire {
namespace {

struct Case {
  std::vector<int64_t> tokens, slots_per_rank;

  ExpertLoad load() const { return {.tokens = tokens, .slots_per_rank = slots_per_rank}; }
  int64_t num_slots() const {
    return std::accumulate(slots_per_rank.begin(), slots_per_rank.end(), int64_t{0});
  }
};

Case random_case(std::mt19937& random, int64_t most_experts, int64_t most_ranks) {
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  Case c;
  const int64_t num_ranks = pick(1, most_ranks);
  const int64_t num_experts = pick(num_ranks, most_experts);
  const int64_t num_slots = num_experts + pick(0, std::min<int64_t>(num_ranks - 1, 3));
  for (int64_t i = 0; i < num_experts; ++i)
    c.tokens.push_back(pick(0, 3) == 0 ? pick(0, 1000) : pick(0, 50));
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    c.slots_per_rank.push_back(num_slots * (rank + 1) / num_ranks - num_slots * rank / num_ranks);
  }
  return c;
}

// Returns the least load that the most loaded rank can have, by trying every expert in every slot.
double naive_optimum(const Case& c) {
  std::vector<int32_t> expert_of(static_cast<size_t>(c.num_slots()), 0);
  const auto num_experts = static_cast<int32_t>(c.tokens.size());
  double least = std::numeric_limits<double>::max();
  for (bool is_done = false; !is_done;) {
    std::vector<bool> has_slot(c.tokens.size());
    for (const int32_t expert : expert_of) has_slot[static_cast<size_t>(expert)] = true;
    if (std::all_of(has_slot.begin(), has_slot.end(), [](bool has) { return has; }))
      least = std::min(least, heaviest_rank(c.load(), expert_of));
    is_done = true;
    for (int32_t& expert : expert_of) {
      if (++expert < num_experts) {
        is_done = false;
        break;
      }
      expert = 0;
    }
  }
  return least;
}

TEST(PlaceExperts, IsNearTheNaiveOptimum) {
  std::mt19937 random(5);
  double worst = 1.0, sum = 0.0;
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    const Case c = random_case(random, 5, 3);
    const auto current = first_placement(std::ssize(c.tokens), c.num_slots());
    const double least = naive_optimum(c);
    const double got = heaviest_rank(c.load(), place_experts(c.load(), current));
    ASSERT_GE(got, least * (1 - 1e-12));
    const double ratio = least > 0 ? got / least : 1.0;
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  EXPECT_LE(worst, 4.0 / 3.0 + 1e-9);
  EXPECT_LE(sum / kRounds, 1.03);
}

TEST(PlaceExperts, EveryExpertHasASlotAndWhatStaysKeepsIts) {
  std::mt19937 random(6);
  for (int round = 0; round < 500; ++round) {
    const Case c = random_case(random, 40, 8);
    auto current = first_placement(std::ssize(c.tokens), c.num_slots());
    const auto placed = place_experts(c.load(), current);
    ASSERT_EQ(placed.size(), current.size());
    EXPECT_EQ(placed, place_experts(c.load(), current)) << "equal arguments";
    for (int32_t expert = 0; expert < std::ssize(c.tokens); ++expert)
      ASSERT_NE(std::count(placed.begin(), placed.end(), expert), 0) << expert;
    // An expert that stays on its rank stays in its slot.
    size_t first = 0;
    for (const int64_t num_slots : c.slots_per_rank) {
      for (int64_t i = 0; i < num_slots; ++i) {
        const size_t slot = first + static_cast<size_t>(i);
        const auto begin = placed.begin() + static_cast<std::ptrdiff_t>(first);
        const auto held = current.begin() + static_cast<std::ptrdiff_t>(first);
        const bool is_kept = std::count(begin, begin + num_slots, current[slot]) >=
                             std::count(held, held + num_slots, current[slot]);
        if (is_kept) {
          EXPECT_EQ(placed[slot], current[slot]);
        }
      }
      first += static_cast<size_t>(num_slots);
    }
    // Unchanged loads move nothing more.
    EXPECT_DOUBLE_EQ(heaviest_rank(c.load(), place_experts(c.load(), placed)),
                     heaviest_rank(c.load(), placed));
  }
}

TEST(PlaceExperts, ABusyExpertIsOnSeveralRanks) {
  const std::vector<int64_t> tokens = {900, 10, 10, 10, 10, 10}, slots = {4, 4};
  const auto placed =
      place_experts({.tokens = tokens, .slots_per_rank = slots}, first_placement(6, 8));
  EXPECT_EQ(std::count(placed.begin(), placed.begin() + 4, 0), 1);
  EXPECT_EQ(std::count(placed.begin() + 4, placed.end(), 0), 1);
  EXPECT_LT(heaviest_rank({.tokens = tokens, .slots_per_rank = slots}, placed), 490);
}

TEST(PlaceExperts, MovesOnlyWhatIsWorthIt) {
  EXPECT_TRUE(is_worth_moving(100.0, 98.0));
  EXPECT_FALSE(is_worth_moving(100.0, 98.5));
  EXPECT_FALSE(is_worth_moving(100.0, 100.0));
  EXPECT_FALSE(is_worth_moving(0.0, 0.0)) << "no tokens were counted";
}

TEST(SlotDealer, SlotsOfAnExpertTakeTurns) {
  const std::vector<int32_t> expert_of = {2, 0, 1, 0, 2, 0};
  SlotDealer dealer(expert_of, 3);
  std::map<int32_t, int64_t> counts;
  std::mt19937 random(7);
  std::vector<int64_t> tokens(3, 0);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids(random() % 9);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 3);
    std::vector<int32_t> slots = ids;
    dealer.deal(slots);
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(expert_of[static_cast<size_t>(slots[i])], ids[i]);
      ++tokens[static_cast<size_t>(ids[i])];
      ++counts[slots[i]];
    }
  }
  const std::vector<int64_t> num_slots = {3, 1, 2};
  for (const auto& [slot, count] : counts) {
    const auto expert = static_cast<size_t>(expert_of[static_cast<size_t>(slot)]);
    EXPECT_NEAR(static_cast<double>(count),
                static_cast<double>(tokens[expert]) / static_cast<double>(num_slots[expert]), 1.0);
  }
}

}  // namespace
}  // namespace quire
