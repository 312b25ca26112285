#include "comm/shared_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace quire {
namespace {

using Groups = std::vector<std::unique_ptr<RankGroup>>;

Groups make(int num_ranks, const SharedRanksOptions& options) {
  auto groups = SharedRanks::create(num_ranks, options);
  EXPECT_TRUE(groups.ok()) << groups.status().message();
  return std::move(*groups);
}

void on_all(const Groups& groups, const std::function<void(RankGroup&)>& work) {
  std::vector<std::thread> threads;
  for (const auto& group : groups) threads.emplace_back([&] { work(*group); });
  for (std::thread& thread : threads) thread.join();
}

// Every rank writes its number for the round, and after the meeting sees the numbers of all others,
// in two buffers that alternate, as in the exchanges of a model.
TEST(SharedRanks, WhatWasWrittenBeforeAMeetingIsSeenBehindIt) {
  for (const int num_ranks : {1, 2, 3, 5}) {
    const Groups groups =
        make(num_ranks, {.memory_bytes = 2 * 64 * num_ranks, .deadline_ms = 60'000});
    std::atomic<int> num_wrong{0};
    on_all(groups, [&](RankGroup& group) {
      std::mt19937 random(static_cast<uint32_t>(group.rank()));
      auto* words = reinterpret_cast<volatile int32_t*>(group.memory().data());
      for (int32_t round = 1; round <= 2000; ++round) {
        volatile int32_t* buffer = words + (round % 2) * 16 * group.size();
        buffer[16 * group.rank()] = round;
        if (random() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        if (!(round % 3 == 0 ? group.all_to_all({}) : group.gather({}))) ++num_wrong;
        for (int rank = 0; rank < group.size(); ++rank)
          num_wrong += buffer[16 * rank] == round ? 0 : 1;
      }
    });
    EXPECT_EQ(num_wrong, 0) << num_ranks << " ranks";
    for (const auto& group : groups) EXPECT_TRUE(group->status().ok());
  }
}

TEST(SharedRanks, ARankThatDoesNotComeBreaksTheGroup) {
  const Groups groups = make(3, {.deadline_ms = 100});
  on_all(groups, [](RankGroup& group) {
    ASSERT_TRUE(group.gather({}));
    if (group.rank() == 1) return;
    EXPECT_FALSE(group.gather({}));
    EXPECT_EQ(group.status().code(), StatusCode::kUnavailable);
    EXPECT_NE(group.status().message().find("rank 1 of 3"), std::string::npos)
        << group.status().message();
    EXPECT_FALSE(group.gather({}));
  });
  EXPECT_FALSE(groups[1]->gather({})) << "too late";
}

TEST(SharedRanks, ARankThatLeavesLetsNobodyWait) {
  // A rank that waits until this deadline is stopped by the test's own limit.
  const Groups groups = make(2, {.deadline_ms = 3'600'000});
  on_all(groups, [](RankGroup& group) {
    if (group.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return group.leave();
    }
    EXPECT_FALSE(group.gather({}));
  });
  EXPECT_FALSE(groups[0]->status().ok());
}

TEST(SharedRanks, RefusesOddNumbers) {
  for (const int num_ranks : {0, -1, RankGroup::kMaxRanks + 1}) {
    const auto groups = SharedRanks::create(num_ranks, {});
    EXPECT_EQ(groups.status().code(), StatusCode::kInvalidArgument) << num_ranks;
  }
}

}  // namespace
}  // namespace quire
