#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace quire {
namespace {

TEST(ThreadTeam, RunsEachIndexOncePerRegion) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadTeam team({.num_threads = threads});
    ASSERT_EQ(team.size(), threads);
    std::vector<int> hits(threads, 0);  // plain ints: run() must order the regions
    for (int region = 0; region < 300; ++region) team.run([&](int thread) { ++hits[thread]; });
    for (const int count : hits) EXPECT_EQ(count, 300);
  }
}

TEST(ThreadTeam, RegionSeesWhatTheCallerWroteAndBack) {
  ThreadTeam team({.num_threads = 3});
  std::vector<int64_t> partial(3);
  int64_t input = 0;
  for (int region = 0; region < 500; ++region) {
    input = region;
    team.run([&](int thread) { partial[thread] = input + thread; });
    ASSERT_EQ(std::accumulate(partial.begin(), partial.end(), int64_t{0}), 3 * region + 3);
  }
}

TEST(ThreadTeam, WakesParkedWorkersAndParkedCaller) {
  ThreadTeam team({.num_threads = 2, .pin = false});
  std::atomic<int> count{0};
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // workers are asleep now
    team.run([&](int thread) {
      if (thread == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the caller sleeps
      ++count;
    });
    ASSERT_EQ(count.load(), 2 * (round + 1));
  }
}

TEST(ThreadTeam, ZeroMeansOneThreadPerPhysicalCore) {
  ThreadTeam team({});
  EXPECT_EQ(team.size(), num_physical_cores());
  EXPECT_GE(team.size(), 1);
}

TEST(ThreadTeam, IsDestroyedWhileParkedOrSpinning) {
  for (int i = 0; i < 50; ++i) {
    ThreadTeam team({.num_threads = 2});
    if (i % 2 == 0) team.run([](int) {});
  }
}

TEST(SplitWork, PartitionsInOrderAtGrain) {
  for (const int64_t count : {0, 1, 7, 16, 100, 1001}) {
    for (const int64_t grain : {1, 4, 32}) {
      for (const int threads : {1, 2, 3, 7}) {
        int64_t next = 0;
        for (int thread = 0; thread < threads; ++thread) {
          const WorkRange range = split_work(count, grain, thread, threads);
          ASSERT_EQ(range.begin, next);
          ASSERT_LE(range.begin, range.end);
          if (range.end < count) {
            ASSERT_EQ(range.end % grain, 0);
          }
          next = range.end;
        }
        ASSERT_EQ(next, count);
      }
    }
  }
}

}  // namespace
}  // namespace quire
