#include "engine/structured/mask_workers.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

std::chrono::steady_clock::time_point in_ten_seconds() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(10);
}

// In whatever order threads go to sleep and are notified, no job is forgotten.
TEST(MaskWorkers, EveryJobIsDone) {
  std::mt19937 rng(1);
  for (const int32_t num_threads : {1, 2, 4}) {
    MaskWorkers workers(num_threads);
    std::atomic<int> num_done{0};
    int num_posted = 0;
    for (int round = 0; round < 500; ++round) {
      std::vector<std::shared_ptr<MaskWorkers::Job>> jobs;
      const auto num_jobs = 1 + rng() % 40;
      for (size_t i = 0; i < num_jobs; ++i) {
        jobs.push_back(workers.post([&num_done] { ++num_done; }));
        if (rng() % 16 == 0) std::this_thread::yield();
      }
      num_posted += static_cast<int>(jobs.size());
      for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
        ASSERT_TRUE(workers.wait(**job, in_ten_seconds())) << round;
      }
      ASSERT_EQ(num_done, num_posted);
    }
  }
}

TEST(MaskWorkers, AJobThatTakesLongHoldsUpNobodyElse) {
  MaskWorkers workers(2);
  std::atomic<bool> may_end{false};
  const auto slow = workers.post([&may_end] {
    while (!may_end) std::this_thread::yield();
  });
  // There are more jobs than one thread does by itself, so that the other one is notified.
  std::vector<std::shared_ptr<MaskWorkers::Job>> jobs;
  for (int i = 0; i < 100; ++i) jobs.push_back(workers.post([] {}));
  for (const auto& job : jobs) EXPECT_TRUE(workers.wait(*job, in_ten_seconds()));
  EXPECT_FALSE(workers.wait(*slow, std::chrono::steady_clock::now()));
  may_end = true;
  EXPECT_TRUE(workers.wait(*slow, in_ten_seconds()));
}

TEST(MaskWorkers, JobsThatHaveNotBegunAreDroppedAtTheEnd) {
  std::atomic<int> num_done{0};
  {
    MaskWorkers workers(1);
    for (int i = 0; i < 1000; ++i) workers.post([&num_done] { ++num_done; });
  }
  EXPECT_LE(num_done, 1000);
}

}  // namespace
}  // namespace quire
