#include "base/thread_team.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace quire {
namespace {

TEST(ThreadTeam, RunsEachIndexOncePerRegion) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadTeam team = ThreadTeam::create({.num_threads = threads}).value();
    ASSERT_EQ(team.size(), threads);
    std::vector<int> hits(threads, 0);  // plain ints: run() must order the regions
    for (int region = 0; region < 300; ++region) team.run([&](int thread) { ++hits[thread]; });
    for (const int count : hits) EXPECT_EQ(count, 300);
  }
}

TEST(ThreadTeam, RegionSeesWhatTheCallerWroteAndBack) {
  ThreadTeam team = ThreadTeam::create({.num_threads = 3}).value();
  std::vector<int64_t> partial(3);
  int64_t input = 0;
  for (int region = 0; region < 500; ++region) {
    input = region;
    team.run([&](int thread) { partial[thread] = input + thread; });
    ASSERT_EQ(std::accumulate(partial.begin(), partial.end(), int64_t{0}), 3 * region + 3);
  }
}

TEST(ThreadTeam, WakesParkedWorkersAndParkedCaller) {
  ThreadTeam team = ThreadTeam::create({.num_threads = 2, .pin = false}).value();
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
  ThreadTeam team = ThreadTeam::create({}).value();
  EXPECT_EQ(team.size(), num_physical_cores());
  EXPECT_GE(team.size(), 1);
}

TEST(ThreadTeam, DealtWorkIsTakenOnceWhoeverTakesIt) {
  struct Case {
    int64_t count, grain;
  };
  for (const Case c : {Case{0, 1}, {1, 1}, {7, 32}, {100, 1}, {1001, 32}, {70000, 64}}) {
    for (const int threads : {1, 2, 3, 5}) {
      ThreadTeam team = ThreadTeam::create({.num_threads = threads}).value();
      for (const int parts : {1, threads}) {
        for (const int slow : {-1, 0, threads - 1}) {  // takes nothing before the others are done
          std::vector<std::atomic<int>> hits(static_cast<size_t>(c.count));
          std::atomic<int> busy{threads - (slow >= 0 ? 1 : 0)};
          team.deal(c.count, c.grain, parts);
          team.run([&](int thread) {
            while (thread == slow && busy.load() > 0) std::this_thread::yield();
            for (WorkRange r = team.take(thread); r.begin < r.end; r = team.take(thread)) {
              EXPECT_EQ(r.begin % c.grain, 0);
              EXPECT_TRUE(r.end % c.grain == 0 || r.end == c.count);
              for (int64_t i = r.begin; i < r.end; ++i) ++hits[static_cast<size_t>(i)];
            }
            --busy;
          });
          for (const std::atomic<int>& count : hits) ASSERT_EQ(count.load(), 1);
        }
      }
    }
  }
}

TEST(ThreadTeam, ThreadsThatTheSystemDoesNotGiveAreAnError) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // more than there is room for
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const auto team = ThreadTeam::create({.num_threads = 3});
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  ASSERT_FALSE(team.ok());
  EXPECT_EQ(team.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(team.status().message().starts_with(
      "--threads: expected 3 compute threads, the system gave 1: "))
      << team.status().message();
  EXPECT_EQ(ThreadTeam::create({.num_threads = -1}).status().message(),
            "--threads: expected a number >= 0, got -1");
}

TEST(ThreadTeam, IsStillATeamWhereItIsMovedTo) {
  ThreadTeam first = ThreadTeam::create({.num_threads = 2}).value();
  ThreadTeam team = std::move(first);
  std::atomic<int> count{0};
  team.run([&](int) { ++count; });
  EXPECT_EQ(count.load(), 2);
}

TEST(ThreadTeam, IsDestroyedWhileParkedOrSpinning) {
  for (int i = 0; i < 50; ++i) {
    ThreadTeam team = ThreadTeam::create({.num_threads = 2}).value();
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
