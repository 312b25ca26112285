#include "base/threads/thread_team.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/threads/cpu_topology.h"

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

TEST(ThreadTeam, ZeroMeansTheThreadsThatMakeSenseHere) {
  ThreadTeam team = ThreadTeam::create({}).value();
  EXPECT_EQ(team.size(), default_num_threads());
  EXPECT_GE(team.size(), 1);
  EXPECT_LE(team.size(), num_physical_cores());
}

TEST(ThreadTeam, DealtWorkIsTakenOnceWhoeverTakesIt) {
  struct Case {
    int64_t count, grain;
  };
  for (const Case c : {Case{0, 1}, {1, 1}, {7, 32}, {100, 1}, {1001, 32}, {70000, 64}}) {
    for (const int threads : {1, 2, 3, 5}) {
      ThreadTeam team = ThreadTeam::create({.num_threads = threads}).value();
      for (const int parts : {1, threads}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(c.count));
        team.deal(c.count, c.grain, parts);
        EXPECT_EQ(team.has_dealt_work(), c.count > 0);
        team.run([&](int slot) {
          for (WorkRange r = team.take(slot); r.begin < r.end; r = team.take(slot)) {
            EXPECT_EQ(r.begin % c.grain, 0);
            EXPECT_TRUE(r.end % c.grain == 0 || r.end == c.count);
            for (int64_t i = r.begin; i < r.end; ++i) ++hits[static_cast<size_t>(i)];
          }
        });
        EXPECT_FALSE(team.has_dealt_work());
        for (const std::atomic<int>& count : hits) ASSERT_EQ(count.load(), 1);
      }
    }
  }
}

// The worker is stopped where it enters its first region, until the test has seen the end of that
// region and of many more. No region may wait for it, and it must not run the body of a region that
// is over.
TEST(ThreadTeam, RegionEndsWithoutAMemberThatIsLate) {
  std::atomic<bool> may_go{false};
  std::atomic<bool> has_come{false};
  std::atomic<bool> has_gone_on{false};
  ThreadTeam team = ThreadTeam::create({.num_threads = 2,
                                        .adapt = false,
                                        .on_enter =
                                            [&](int) {
                                              has_come.store(true);
                                              while (!may_go.load()) std::this_thread::yield();
                                              has_gone_on.store(true);
                                            }})
                        .value();
  const auto run_once = [&] {
    // Destroyed when the region is over.
    auto hits = std::make_unique<std::vector<std::atomic<int>>>(2);
    team.deal(100, 1, 2);
    std::atomic<int> taken{0};
    team.run([&, counts = hits.get()](int slot) {
      ++(*counts)[static_cast<size_t>(slot)];
      for (WorkRange r = team.take(slot); r.begin < r.end; r = team.take(slot)) {
        taken += static_cast<int>(r.end - r.begin);
      }
    });
    ASSERT_EQ((*hits)[0].load(), 1);
    ASSERT_EQ((*hits)[1].load(), 1);
    ASSERT_EQ(taken.load(), 100);
  };
  for (int region = 0; region < 100; ++region) run_once();
  while (!has_come.load()) run_once();
  may_go.store(true);
  while (!has_gone_on.load()) std::this_thread::yield();
  for (int region = 0; region < 100; ++region) run_once();
}

// Members are late at random; regions are of random sizes, and their memory does not outlive them.
// Each piece is done once, as a naive count shows.
TEST(ThreadTeam, EachPieceIsDoneOnceWhoeverIsDelayed) {
  for (const int threads : {2, 3, 5}) {
    std::atomic<uint32_t> state{static_cast<uint32_t>(threads)};
    const auto delay = [&](uint32_t one_in) {
      const uint32_t random = state.fetch_add(0x9e3779b9u) * 0x85ebca6bu >> 16;
      if (random % one_in != 0) return;
      std::this_thread::sleep_for(std::chrono::microseconds(random % 400));
    };
    ThreadTeam team =
        ThreadTeam::create({.num_threads = threads, .on_enter = [&](int) { delay(3); }}).value();
    for (int region = 0; region < 400; ++region) {
      const int64_t count = (region * 7919) % 97;
      auto hits = std::make_unique<std::vector<int>>(static_cast<size_t>(count));
      auto slots = std::make_unique<std::vector<int>>(static_cast<size_t>(threads));
      team.deal(count, 1 + region % 3, threads);
      team.run([&, counts = hits.get(), runs = slots.get()](int slot) {
        ++(*runs)[static_cast<size_t>(slot)];
        for (WorkRange r = team.take(slot); r.begin < r.end; r = team.take(slot)) {
          for (int64_t i = r.begin; i < r.end; ++i) ++(*counts)[static_cast<size_t>(i)];
          delay(64);
        }
      });
      ASSERT_EQ(*hits, std::vector<int>(static_cast<size_t>(count), 1));
      ASSERT_EQ(*slots, std::vector<int>(static_cast<size_t>(threads), 1));
      const ThreadTeamStats stats = team.stats();
      ASSERT_GE(stats.num_members, 1);
      ASSERT_LE(stats.num_members, threads);
    }
  }
}

// If the system does not count how long threads wait for a core, their run times are used.
TEST(ThreadTeam, AMemberThatDoesNotRunLeavesWhereDelaysAreNotCounted) {
  ThreadTeam team = ThreadTeam::create({.num_threads = 2, .counts_delays = false}).value();
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> worker_has_come{false};
  const auto off_core_for_a_while = [&](int) {
    if (std::this_thread::get_id() == caller) {
      while (!worker_has_come.load()) std::this_thread::yield();
    } else if (!worker_has_come.exchange(true)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
  team.run(off_core_for_a_while);
  EXPECT_EQ(team.stats().num_members, 1);
  EXPECT_GE(team.stats().late_members, 1);
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
