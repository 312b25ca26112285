// Ranks and stages of several processes, run here as threads: the results are bit for bit those of
// one rank alone.
#include "ranks/rank_process.h"

#include <thread>
#include <tuple>

#include "comm/testing/linked_ranks.h"
#include "exec/testing/l4_support.h"
#include "ranks/leading_executor.h"
#include "ranks/testing/rank_options.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

// Runs `work` beside threads that are the other ranks, and returns what those returned.
std::vector<Status> beside_others(const ModelRunnerOptions& options, RankProcess process,
                                  const std::function<void()>& work) {
  std::vector<Status> statuses(static_cast<size_t>(process.size));
  std::vector<std::thread> others;
  for (process.rank = 1; process.rank < process.size; ++process.rank) {
    others.emplace_back([&, process] {
      statuses[static_cast<size_t>(process.rank)] = follow_first_rank(options, process);
    });
  }
  work();
  for (std::thread& other : others) other.join();
  return statuses;
}

class SameBitsOfProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(SameBitsOfProcesses, AloneAndInACrowd) {
  const ModelRunnerOptions options = test::rank_options(GetParam(), "auto");
  auto alone = ModelRunner::create(options);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  ASSERT_TRUE((*alone)->initialize(test::kRankPlan).ok());
  test::PlanDriver driver(**alone, test::kRankBlocks);
  const test::DriverOutput want =
      driver.run({test::make_request(1, 5, test::kPromptTokens)}, {})[1];
  const auto num_layers = static_cast<int>((*alone)->plan().whole.layers.size());
  constexpr auto kTcp = RankTransport::kTcp, kFastest = RankTransport::kFastest;
  for (const auto& [size, stages, transport] : {std::tuple(2, 1, kTcp),
                                                {2, 1, kFastest},
                                                {4, 1, kTcp},
                                                {2, 2, kTcp},
                                                {4, 2, kFastest},
                                                {3, 3, kTcp}}) {
    if (stages > num_layers) continue;
    const RankProcess process{
        .size = size, .num_stages = stages, .port = test::free_port(), .transport = transport};
    const std::string what =
        fmt::format("{} ranks in {} stages{}", size, stages, transport == kTcp ? " over TCP" : "");
    const auto ends = beside_others(options, process, [&] {
      auto first = LeadingExecutor::create(options, process);
      ASSERT_TRUE(first.ok()) << first.status().message();
      ASSERT_TRUE((*first)->initialize(test::kRankPlan).ok());
      ASSERT_TRUE((*first)->warm_up().ok());
      test::PlanDriver of_ranks(**first, test::kRankBlocks);
      test::expect_same_bits(of_ranks.run({test::make_request(1, 5, test::kPromptTokens)}, {})[1],
                             want, what + ", alone");
      auto crowd = of_ranks.run(test::make_crowd(100, 16),
                                {.chunk = 7, .step_tokens = 300, .preempt_after_output = 5});
      test::expect_same_bits(crowd[100], want, what + ", in a crowd");
    });
    for (const Status& end : ends) EXPECT_TRUE(end.ok()) << what << ": " << end.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameBitsOfProcesses,
                         ::testing::Values("llama", "gemma2", "olmo2", "mixtral", "gpt_oss",
                                           "qwen3_5_moe", "falcon_h1", "awq_llama",
                                           "fp8_block_qwen3"));

// Ranks have whole experts, whose outputs are combined in both ways, and which move by load.
class SpreadOverProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(SpreadOverProcesses, SameBits) {
  ModelRunnerOptions options = test::rank_options(GetParam(), "auto");
  auto alone = ModelRunner::create(options);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  ASSERT_TRUE((*alone)->initialize(test::kRankPlan).ok());
  test::PlanDriver driver(**alone, test::kRankBlocks);
  const test::DriverOutput want =
      driver.run({test::make_request(1, 5, test::kPromptTokens)}, {})[1];
  options.share.whole_experts = true;
  for (const auto& [size, combine] : {std::pair(2, ExpertCombine::kAllGather),
                                      {2, ExpertCombine::kAllToAll},
                                      {4, ExpertCombine::kAllToAll}}) {
    options.share.combine = combine;
    options.expert_balance = {.is_enabled = size != 4, .window_size = 5, .step_interval = 5};
    options.share.num_redundant_experts = size == 4 ? 0 : 1;
    const RankProcess process{
        .size = size,
        .port = test::free_port(),
        .transport = size == 4 ? RankTransport::kFastest : RankTransport::kTcp};
    const auto ends = beside_others(options, process, [&] {
      auto first = LeadingExecutor::create(options, process);
      ASSERT_TRUE(first.ok()) << first.status().message();
      ASSERT_TRUE((*first)->initialize(test::kRankPlan).ok());
      test::PlanDriver of_ranks(**first, test::kRankBlocks);
      auto crowd = of_ranks.run(test::make_crowd(100, 16),
                                {.chunk = 7, .step_tokens = 300, .preempt_after_output = 5});
      test::expect_same_bits(crowd[100], want, fmt::format("{} ranks", size));
    });
    for (const Status& end : ends) EXPECT_TRUE(end.ok()) << size << ": " << end.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SpreadOverProcesses,
                         ::testing::Values("mixtral", "gpt_oss", "qwen3_5_moe", "deepseek_v3"));

TEST(RankProcess, AFirstRankThatIsGoneIsAnError) {
  const ModelRunnerOptions options = test::rank_options("llama", "auto");
  const uint16_t port = test::free_port();
  Status status;
  std::thread other(
      [&] { status = follow_first_rank(options, {.rank = 1, .size = 2, .port = port}); });
  {
    const auto first = RankLinks::join({.size = 2, .port = port, .agreement = "something else"});
    EXPECT_EQ(first.status().code(), StatusCode::kInvalidArgument);
  }
  other.join();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("started otherwise"), std::string::npos) << status.message();
}

// Every rank reads adapters from the same path, uses them by number, and frees them.
TEST(RankProcess, AdaptersAreReadByEveryRank) {
  const auto folder = test::source_dir() / "tests" / "goldens" / "lora";
  ModelRunnerOptions options = test::rank_options("llama", "auto");
  options.max_adapters = 2;
  const auto run = [&](Executor& executor, std::vector<test::DriverOutput>& outputs) {
    uint64_t id = 0;
    test::PlanDriver driver(executor, test::kRankBlocks);
    // More adapters than fit at once.
    for (const char* name : {"llama.plain", "llama.rslora", "llama.bias", "llama.plain"}) {
      const auto adapter = executor.load_adapter(name, (folder / name).string());
      ASSERT_TRUE(adapter.ok()) << adapter.status().message();
      std::vector<test::DriverRequest> batch;
      for (int i = 0; i < 4; ++i) {
        batch.push_back(test::make_request(++id, 5, test::kPromptTokens));
        if (i % 2 == 1) batch.back().adapter = *adapter;
      }
      for (const auto& output : driver.run(batch, {.chunk = 23})) outputs.push_back(output.second);
      // The next step drops the adapters that the executor still holds.
      outputs.push_back(driver.run({test::make_request(++id, 6, 3)}, {}).begin()->second);
    }
  };
  std::vector<test::DriverOutput> want;
  auto alone = ModelRunner::create(options);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  ASSERT_TRUE((*alone)->initialize(test::kRankPlan).ok());
  run(**alone, want);
  for (const int size : {2, 4}) {
    const RankProcess process{.size = size, .port = test::free_port()};
    const auto ends = beside_others(options, process, [&] {
      auto first = LeadingExecutor::create(options, process);
      ASSERT_TRUE(first.ok()) << first.status().message();
      ASSERT_TRUE((*first)->initialize(test::kRankPlan).ok());
      std::vector<test::DriverOutput> got;
      run(**first, got);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        test::expect_same_bits(got[i], want[i], fmt::format("{} ranks, request {}", size, i));
      EXPECT_EQ((*first)->load_adapter("x", "/nowhere").status().code(), StatusCode::kNotFound);
    });
    for (const Status& end : ends) EXPECT_TRUE(end.ok()) << end.message();
  }
}

TEST(RankProcess, AStepThatFailsInAStageHarmsNoOther) {
  const ModelRunnerOptions options = test::rank_options("llama", "auto");
  const RankProcess process{.size = 3, .num_stages = 3, .port = test::free_port()};
  const auto ends = beside_others(options, process, [&] {
    auto first = LeadingExecutor::create(options, process);
    ASSERT_TRUE(first.ok()) << first.status().message();
    ASSERT_TRUE((*first)->initialize(test::kRankPlan).ok());
    StepPlan bad;
    bad.step_id = 7;
    bad.scheduled.push_back({.id = RequestId(9), .num_scheduled_tokens = 1});
    bad.total_num_scheduled_tokens = 1;
    test::PlanDriver driver(**first, test::kRankBlocks);
    const auto want = driver.run({test::make_request(1, 5, test::kPromptTokens)}, {})[1];
    EXPECT_FALSE((*first)->execute(bad).ok());
    const auto got = driver.run({test::make_request(2, 5, test::kPromptTokens)}, {})[2];
    test::expect_same_bits(got, want, "after a failed step");
  });
  for (const Status& end : ends) EXPECT_TRUE(end.ok()) << end.message();
}

TEST(RankProcess, RefusesWhatCannotBeShared) {
  const ModelRunnerOptions options = test::rank_options("llama", "auto");
  for (const auto& [size, stages] : {std::pair(3, 2), {64, 64}, {2, 0}}) {
    const auto refused =
        LeadingExecutor::create(options, {.size = size, .num_stages = stages, .port = 1});
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << refused.status().message();
    EXPECT_NE(refused.status().message().find("--pipeline-parallel-size"), std::string::npos)
        << refused.status().message();
  }
}

TEST(RankProcess, StagesAreARingOfTheRanks) {
  for (const auto& [size, stages] : {std::pair(1, 1), {4, 1}, {2, 2}, {4, 2}, {6, 3}, {8, 8}}) {
    std::vector<int> ranks_of(static_cast<size_t>(stages));
    for (int rank = 0; rank < size; ++rank) {
      const RankProcess process{.rank = rank, .size = size, .num_stages = stages};
      const PipelineStage stage = process.stage();
      ++ranks_of[static_cast<size_t>(stage.index)];
      EXPECT_TRUE(rank > 0 || stage.is_last());
      const RankProcess next{.rank = process.next(), .size = size, .num_stages = stages};
      EXPECT_EQ(next.stage().index, (stage.index + 1) % stages);
      EXPECT_EQ(next.rank_in_stage(), process.rank_in_stage());
      EXPECT_EQ(next.previous(), rank);
    }
    for (const int ranks : ranks_of) EXPECT_EQ(ranks, size / stages);
  }
}

}  // namespace
}  // namespace quire
