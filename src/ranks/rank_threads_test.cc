#include "ranks/rank_threads.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <new>
#include <thread>

namespace quire {
namespace {

TEST(RankThreads, TheLowestRanksErrorIsReturned) {
  RankThreads threads(3);
  for (int i = 0; i < 100; ++i) {
    const Status status = threads.run(
        [&](int rank) { return rank == i % 3 ? internal_error("rank {}", rank) : Status(); });
    EXPECT_EQ(status.message(), fmt::format("rank {}", i % 3));
    EXPECT_TRUE(threads.run([](int /*rank*/) { return Status(); }).ok());
  }
}

// The other ranks still use what the call has captured.
TEST(RankThreads, AnExceptionEndsNoCallOfAnotherRank) {
  RankThreads threads(3);
  for (int thrower = 0; thrower < 3; ++thrower) {
    std::array<std::atomic<bool>, 3> has_ended = {};
    const Status status = threads.run([&](int rank) -> Status {
      if (rank == thrower) throw std::bad_alloc();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      has_ended[static_cast<size_t>(rank)] = true;
      return {};
    });
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_EQ(status.message(), fmt::format("rank {}: {}", thrower, std::bad_alloc().what()));
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(has_ended[static_cast<size_t>(rank)], rank != thrower);
  }
}

}  // namespace
}  // namespace quire
