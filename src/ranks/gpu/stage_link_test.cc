// Stages on GPUs pass rows on, several steps at a time, and never wait forever.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "exec/gpu/ranks/gpu_stage_link.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/cuda/test/test_rank_ops.h"

namespace quire {
namespace {

class StageLink : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = gpu_test::open_test_device();
    if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
  }

  void make(int num_members, int num_stages, int64_t deadline_ms = 20'000) {
    for (int member = 0; member < num_members; ++member) {
      auto device = gpu_test::open_test_device();
      ASSERT_TRUE(device.ok()) << device.status().message();
      devices_.push_back(std::move(*device));
      auto memory = devices_.back()->allocate(kStepBytes + 64);
      ASSERT_TRUE(memory.ok()) << memory.status().message();
      hidden_.push_back(memory->allocate<float>(kStepBytes / 4));
      memory_.push_back(std::move(*memory));
    }
    auto links = GpuStageLink::create(
        devices_,
        {.num_stages = num_stages, .ops = &gpu_test::test_rank_ops(), .deadline_ms = deadline_ms});
    ASSERT_TRUE(links.ok()) << links.status().message();
    links_ = std::move(*links);
    on_all([&](size_t member) { EXPECT_TRUE(links_[member]->allocate(kStepBytes).ok()); });
  }

  void on_all(const std::function<void(size_t member)>& work) {
    std::vector<std::thread> threads;
    for (size_t member = 0; member < links_.size(); ++member) threads.emplace_back(work, member);
    for (std::thread& thread : threads) thread.join();
  }

  static constexpr int64_t kStepBytes = 300'000;  // more than a block's part

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Arena> memory_;
  std::vector<float*> hidden_;  // by member
  std::vector<std::unique_ptr<GpuStageLink>> links_;
};

// Steps of different sizes, as many under way as there are stages. What the first stage's ranks
// send passes through all stages.
TEST_F(StageLink, RowsOfSeveralStepsComeToTheLastStage) {
  constexpr int kStages = 3;
  make(2 * kStages, kStages);
  const std::vector<int64_t> sizes = {4, kStepBytes, 20, 70'000, kStepBytes - 4, 4};
  on_all([&](size_t member) {
    Device& device = *devices_[member];
    GpuStageLink& link = *links_[member];
    std::vector<std::vector<float>> values(sizes.size());
    for (size_t step = 0; step < sizes.size(); ++step) {
      const auto count = static_cast<size_t>(sizes[step] / 4);
      values[step].assign(count, link.stage() == 0 ? static_cast<float>(10 * step + member) : -1);
      if (link.stage() == 0)
        device.copy_to_device(hidden_[member], values[step].data(), sizes[step]);
      link.receive(hidden_[member], sizes[step]);
      if (link.is_last()) device.copy_to_host(values[step].data(), hidden_[member], sizes[step]);
      link.send(hidden_[member], sizes[step]);
      // All steps end before as many more begin.
      if (step % kStages != kStages - 1) continue;
      EXPECT_TRUE(device.synchronize().ok());
      EXPECT_TRUE(link.meet());
    }
    for (size_t step = 0; step < sizes.size(); ++step) {
      const auto want = static_cast<float>(10 * step + member % 2);
      if (!link.is_last()) continue;
      EXPECT_EQ(values[step], std::vector<float>(values[step].size(), want)) << step;
    }
    EXPECT_TRUE(link.status().ok()) << link.status().message();
  });
}

TEST_F(StageLink, EndsWhereAStageDoesNotCome) {
  make(3, 3, 100);
  links_[2]->receive(hidden_[2], 64);
  EXPECT_TRUE(devices_[2]->synchronize().ok());
  const Status status = links_[2]->status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "stage 0 of 3 is gone, or its GPU did not come within 100 ms");
  EXPECT_FALSE(links_[0]->status().ok());
}

// The error names the stage that has begun and sends nothing.
TEST_F(StageLink, NamesTheStageThatStopped) {
  make(3, 3, 100);
  on_all([&](size_t member) {
    links_[member]->receive(hidden_[member], 64);
    if (member == 0) links_[0]->send(hidden_[0], 64);
    EXPECT_TRUE(devices_[member]->synchronize().ok());
  });
  EXPECT_EQ(links_[0]->status().message(),
            "stage 1 of 3 is gone, or its GPU did not come within 100 ms");
}

TEST_F(StageLink, EndsWhereAStageLeaves) {
  make(2, 2, 600'000);
  on_all([&](size_t member) {
    if (member == 0) return links_[0]->leave();
    links_[1]->receive(hidden_[1], 64);
    EXPECT_TRUE(devices_[1]->synchronize().ok());
    EXPECT_FALSE(links_[1]->meet());
  });
  EXPECT_EQ(links_[1]->status().code(), StatusCode::kUnavailable);
}

TEST_F(StageLink, RefusesStagesOfDifferentNumbersOfRanks) {
  for (int i = 0; i < 3; ++i) devices_.push_back(*gpu_test::open_test_device());
  const auto links =
      GpuStageLink::create(devices_, {.num_stages = 2, .ops = &gpu_test::test_rank_ops()});
  EXPECT_EQ(links.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(links.status().message().find("as many for each of 2 stages, got 3"), std::string::npos)
      << links.status().message();
}

}  // namespace
}  // namespace quire
