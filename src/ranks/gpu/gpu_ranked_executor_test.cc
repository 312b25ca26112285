// Law L4 for ranks on GPUs: ids and logprobs are the same bits for every number of ranks, from graphs
// and without, and a rank that is lost ends the group.
#include "ranks/gpu/gpu_ranked_executor.h"

#include <gtest/gtest.h>

#include "core/testing/executor_contract.h"
#include "exec/dummy_step.h"
#include "exec/testing/gpu_runner_test_support.h"
#include "kernels/cuda/test/test_rank_ops.h"

namespace quire {
namespace {

using gpu_test::GpuRunnerTest;
using test::DriverOutput;
using test::DriverRequest;
using test::PlanDriver;

struct RankedSetup {
  int num_ranks = 2;
  GpuRunnerOptions gpu = {};
  gpu_test::EmulatedGpu emulated = {};
  int32_t num_failing_captures = 0;  // of the last rank
  int64_t deadline_ms = 20'000;
};

ModelRunnerOptions options_for(const std::string& model) {
  auto files = ModelFiles::open(test::golden_model(test::golden_dir(model)));
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  return {.files = std::make_shared<const ModelFiles>(std::move(*files)),
          .threads = 1,
          .state_block_size = 16,
          .max_num_batched_tokens = 64,
          .max_num_seqs = 6,
          .kv_cache_memory_bytes = int64_t{8} << 20,
          .max_logits_bytes = int64_t{5} * 160 * 4};  // rows of logits in several rounds
}

constexpr KvPlan kPlan{.num_blocks = test::kGoldenBlocks, .num_state_blocks = test::kGoldenBlocks};

Result<std::unique_ptr<GpuRankedExecutor>> load_ranks(const std::string& model,
                                                      const RankedSetup& setup) {
  RankedGpus gpus{.group = {.ops = &gpu_test::test_rank_ops(), .deadline_ms = setup.deadline_ms}};
  for (int rank = 0; rank < setup.num_ranks; ++rank) {
    gpu_test::EmulatedGpu emulated = setup.emulated;
    if (rank == setup.num_ranks - 1) emulated.num_failing_captures = setup.num_failing_captures;
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, gpu_test::open_test_device(emulated));
    gpus.devices.push_back(std::move(device));
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRankedExecutor> executor,
                         GpuRankedExecutor::create(options_for(model), setup.gpu, std::move(gpus)));
  QUIRE_RETURN_IF_ERROR(executor->initialize(kPlan));
  QUIRE_RETURN_IF_ERROR(executor->warm_up());
  return executor;
}

// What one GPU answers to a request that is alone, so many ranks do in a crowd and in chunks.
void expect_bits_of_one_gpu(const std::string& model, RankedSetup setup, int num_ranks) {
  auto alone = gpu_test::load_runner(model, {.emulated = setup.emulated});
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  PlanDriver alone_driver(**alone, test::kGoldenBlocks);
  const DriverRequest watched = gpu_test::sampled_request(1, 37);
  const DriverOutput want = alone_driver.run({watched}, {})[1];
  setup.num_ranks = num_ranks;
  auto ranks = load_ranks(model, setup);
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  PlanDriver driver(**ranks, test::kGoldenBlocks);
  auto crowd =
      driver.run({gpu_test::sampled_request(2, 20), watched, gpu_test::sampled_request(3, 5)},
                 {.chunk = 16, .step_tokens = 40});
  gpu_test::expect_same(crowd[1], want);
  EXPECT_GT((*ranks)->graph_counts()->num_graph_steps, 0);
}

class GpuRankedBits : public GpuRunnerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuRankedBits, AreThoseOfOneGpu) { expect_bits_of_one_gpu(GetParam(), {}, 2); }

// Each way in which heads, MLPs, experts, norms, states and weights are cut or are not.
INSTANTIATE_TEST_SUITE_P(Models, GpuRankedBits,
                         ::testing::Values("gpt2", "qwen2_moe", "mxfp4_gpt_oss", "deepseek_v3",
                                           "bloom", "falcon_h1", "gptq_order_llama",
                                           "fp8_block_qwen3", "int8_llama"),
                         [](const auto& info) { return std::string(info.param); });

using GpuRanked = GpuRunnerTest;

// More ranks than KV heads, each with a copy.
TEST_F(GpuRanked, FourRanksGiveTheBitsOfOne) { expect_bits_of_one_gpu("llama", {}, 4); }

TEST_F(GpuRanked, GoesOnAfterFailedSteps) {
  auto ranks = load_ranks("llama", {});
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  test::expect_recovery_from_failed_execute(**ranks);
  auto other = load_ranks("llama", {});
  ASSERT_TRUE(other.ok());
  test::expect_recovery_from_failed_submit(**other);
  EXPECT_TRUE((*other)->health().ok());
}

// A graph that one rank cannot capture is there for no rank.
TEST_F(GpuRanked, CapturesForAllRanksOrNone) {
  if ((*gpu_test::open_test_device())->stream().emulated() == nullptr)
    GTEST_SKIP() << "SKIPPED: captures of a real GPU cannot be made to fail";
  for (const int32_t num_failing : {1, 3}) {
    auto ranks = load_ranks("llama", {.num_failing_captures = num_failing});
    ASSERT_TRUE(ranks.ok()) << ranks.status().message();
    // Three failures on end are enough to give up.
    for (int i = 0; i < 4; ++i) (void)(*ranks)->work_while_idle();
    for (int rank = 0; rank < 2; ++rank) {
      const int32_t num_graphs = (*ranks)->runner(rank).graph_counts()->num_graphs;
      EXPECT_EQ(num_graphs, num_failing == 1 ? 3 : 0) << rank;
    }
    PlanDriver driver(**ranks, test::kGoldenBlocks);
    EXPECT_TRUE(driver.run({gpu_test::sampled_request(1, 9)}, {})[1].status.ok());
  }
}

TEST_F(GpuRanked, EndsWhenARankIsLost) {
  auto ranks = load_ranks("llama", {});
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  (*ranks)->group(1).leave();
  EXPECT_EQ((*ranks)->health().code(), StatusCode::kUnavailable);
  const Status status = execute_dummy(**ranks, (*ranks)->plan().limits, kPlan);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("rank 1 of 2 is gone"), std::string::npos) << status.message();
}

TEST_F(GpuRanked, RefusesWhatRanksDoNotDo) {
  const Status measured = load_ranks("llama", {.gpu = {.deterministic = false}}).status();
  EXPECT_EQ(measured.code(), StatusCode::kUnimplemented);
  EXPECT_NE(measured.message().find("--no-deterministic"), std::string::npos) << measured.message();
  const Status sparse = load_ranks("gemma3n", {}).status();
  EXPECT_EQ(sparse.code(), StatusCode::kUnimplemented);
  EXPECT_NE(sparse.message().find("--tensor-parallel-size"), std::string::npos) << sparse.message();
}

}  // namespace
}  // namespace quire
