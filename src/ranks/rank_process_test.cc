// Ranks over TCP, as threads of this process: the bits are those of one rank alone.
#include "ranks/rank_process.h"

#include <gtest/gtest.h>

#include <thread>

#include "exec/testing/golden_support.h"
#include "exec/testing/l4_support.h"

namespace quire {
namespace {

constexpr int32_t kNumBlocks = 2048;
const KvPlan kPlan{.num_blocks = kNumBlocks, .num_state_blocks = kNumBlocks};

ModelRunnerOptions options_for(const std::string& model) {
  auto files = ModelFiles::open(test::golden_model(test::golden_dir(model)));
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.kv_cache_memory_bytes = int64_t{64} << 20;
  options.threads = 1;
  options.max_num_batched_tokens = 512;
  options.max_num_seqs = 64;
  options.max_logits_bytes = 5 * 160 * 4;
  options.state_block_size = 16;
  return options;
}

uint16_t free_port() {
  const auto listener = listen_on(0);
  EXPECT_TRUE(listener.ok());
  return port_of(*listener);
}

class SameBitsOverTcp : public ::testing::TestWithParam<const char*> {};

TEST_P(SameBitsOverTcp, AloneAndInACrowd) {
  const ModelRunnerOptions options = options_for(GetParam());
  auto alone = ModelRunner::create(options);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  ASSERT_TRUE((*alone)->initialize(kPlan).ok());
  test::PlanDriver driver(**alone, kNumBlocks);
  const test::DriverOutput want =
      driver.run({test::make_request(1, 5, test::kPromptTokens)}, {})[1];
  for (const int size : {2, 4}) {
    RankProcess process{.size = size, .port = free_port()};
    std::vector<std::thread> others;
    std::vector<Status> statuses(static_cast<size_t>(size));
    for (int rank = 1; rank < size; ++rank) {
      process.rank = rank;
      others.emplace_back([&statuses, &options, process] {
        statuses[static_cast<size_t>(process.rank)] = follow_first_rank(options, process);
      });
    }
    process.rank = 0;
    {
      auto first = LeadingExecutor::create(options, process);
      ASSERT_TRUE(first.ok()) << first.status().message();
      ASSERT_TRUE((*first)->initialize(kPlan).ok());
      ASSERT_TRUE((*first)->warm_up().ok());
      test::PlanDriver of_ranks(**first, kNumBlocks);
      test::expect_same_bits(of_ranks.run({test::make_request(1, 5, test::kPromptTokens)}, {})[1],
                             want, fmt::format("{} ranks, alone", size));
      auto crowd = of_ranks.run(test::make_crowd(100, 16),
                                {.chunk = 7, .step_tokens = 300, .preempt_after_output = 5});
      test::expect_same_bits(crowd[100], want, fmt::format("{} ranks, in a crowd", size));
    }
    for (std::thread& other : others) other.join();
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameBitsOverTcp,
                         ::testing::Values("llama", "gemma2", "olmo2", "mixtral", "gpt_oss",
                                           "qwen3_5_moe", "falcon_h1", "awq_llama",
                                           "fp8_block_qwen3"));

TEST(RankProcess, AFirstRankThatIsGoneIsAnError) {
  const ModelRunnerOptions options = options_for("llama");
  const uint16_t port = free_port();
  Status status;
  std::thread other(
      [&] { status = follow_first_rank(options, {.rank = 1, .size = 2, .port = port}); });
  {
    const auto first = TcpRanks::join({.size = 2, .port = port, .agreement = "something else"});
    EXPECT_EQ(first.status().code(), StatusCode::kInvalidArgument);
  }
  other.join();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("started otherwise"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace quire
