// Law L4 for several GPUs: ids and logprobs are the same bits for every number of ranks, stages and
// engines, with and without graphs. A lost GPU ends its group.
#include "ranks/gpu/gpu_ranked_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/testing/executor_contract.h"
#include "exec/dummy_step.h"
#include "exec/testing/gpu_runner_test_support.h"
#include "kernels/cuda/test/test_rank_ops.h"
#include "ranks/gpu/gpu_engines.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using gpu_test::GpuRunnerTest;
using test::DriverOutput;
using test::DriverRequest;
using test::PlanDriver;

struct RankedSetup {
  int num_ranks = 2;
  int num_stages = 1;
  GpuRunnerOptions gpu = {};
  gpu_test::EmulatedGpu emulated = {};
  int32_t num_failing_captures = 0;  // of the last rank
  int64_t deadline_ms = 20'000;
  int32_t max_adapters = 0;
  std::optional<ExpertCombine> whole_experts = {};
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
  ModelRunnerOptions options = options_for(model);
  options.max_adapters = setup.max_adapters;
  options.share.whole_experts = setup.whole_experts.has_value();
  options.share.combine = setup.whole_experts.value_or(ExpertCombine::kFewerBytes);
  RankedGpus gpus{.group = {.ops = &gpu_test::test_rank_ops(), .deadline_ms = setup.deadline_ms},
                  .num_stages = setup.num_stages};
  const int num_members = setup.num_ranks * setup.num_stages;
  for (int member = 0; member < num_members; ++member) {
    gpu_test::EmulatedGpu emulated = setup.emulated;
    if (member == num_members - 1) emulated.num_failing_captures = setup.num_failing_captures;
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, gpu_test::open_test_device(emulated));
    gpus.devices.push_back(std::move(device));
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRankedExecutor> executor,
                         GpuRankedExecutor::create(options, setup.gpu, std::move(gpus)));
  QUIRE_RETURN_IF_ERROR(executor->initialize(kPlan));
  QUIRE_RETURN_IF_ERROR(executor->warm_up());
  return executor;
}

// Several GPUs return the same as one GPU running a single request: in a crowd, in chunks, after a
// preemption and after a prefix hit.
void expect_bits_of_one_gpu(const std::string& model, const RankedSetup& setup) {
  auto alone = gpu_test::load_runner(model, {.emulated = setup.emulated});
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  PlanDriver alone_driver(**alone, test::kGoldenBlocks);
  const DriverRequest watched = gpu_test::sampled_request(1, 37);
  const DriverOutput want = alone_driver.run({watched}, {})[1];
  auto ranks = load_ranks(model, setup);
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  PlanDriver driver(**ranks, test::kGoldenBlocks);
  auto crowd =
      driver.run({gpu_test::sampled_request(2, 20), watched, gpu_test::sampled_request(3, 5)},
                 {.chunk = 16, .step_tokens = 40});
  gpu_test::expect_same(crowd[1], want);
  EXPECT_GT((*ranks)->graph_counts()->num_graph_steps, 0);
  if (setup.num_stages == 1) return;
  DriverRequest again = watched;
  again.id = 4;
  gpu_test::expect_same(driver.run({again}, {.preempt_after_output = 3})[4], want);
  again.id = 5;
  gpu_test::expect_same(driver.run_after_hit(again, watched.id, 1, {}), want);
}

class GpuRankedBits : public GpuRunnerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuRankedBits, AreThoseOfOneGpu) { expect_bits_of_one_gpu(GetParam(), {}); }

// Models that cover every way in which heads, MLPs, experts, norms, states and weights are cut or
// left whole.
INSTANTIATE_TEST_SUITE_P(Models, GpuRankedBits,
                         ::testing::Values("gpt2", "qwen2_moe", "mxfp4_gpt_oss", "deepseek_v3",
                                           "bloom", "falcon_h1", "gptq_order_llama",
                                           "fp8_block_qwen3", "int8_llama"),
                         [](const auto& info) { return std::string(info.param); });

class GpuStageBits : public GpuRunnerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuStageBits, AreThoseOfOneGpu) {
  expect_bits_of_one_gpu(GetParam(), {.num_ranks = 1, .num_stages = 2});
}

// Tied heads, experts, latents, positions that only the first stage has, states beside attention
// and instead of it, quantized weights.
INSTANTIATE_TEST_SUITE_P(Models, GpuStageBits,
                         ::testing::Values("gpt2", "gpt_oss", "deepseek_v3", "bloom", "falcon_h1",
                                           "qwen3_next", "mamba2", "int8_rows_mistral"),
                         [](const auto& info) { return std::string(info.param); });

using GpuRanked = GpuRunnerTest;

// More ranks than KV heads, so that several ranks have a copy of a head.
TEST_F(GpuRanked, FourRanksGiveTheBitsOfOne) { expect_bits_of_one_gpu("llama", {.num_ranks = 4}); }

// Each rank has whole experts, and their outputs are combined in either way.
TEST_F(GpuRanked, SpreadExpertsGiveTheBitsOfOneGpu) {
  expect_bits_of_one_gpu("mxfp4_gpt_oss", {.whole_experts = ExpertCombine::kAllGather});
  expect_bits_of_one_gpu("qwen2_moe", {.whole_experts = ExpertCombine::kAllToAll});
  expect_bits_of_one_gpu("deepseek_v3",
                         {.num_ranks = 4, .whole_experts = ExpertCombine::kFewerBytes});
}

// Three steps under way, and stages of ranks.
TEST_F(GpuRanked, ThreeStagesGiveTheBitsOfOne) {
  expect_bits_of_one_gpu("llama", {.num_ranks = 1, .num_stages = 3});
}
TEST_F(GpuRanked, StagesOfRanksGiveTheBitsOfOne) {
  expect_bits_of_one_gpu("llama", {.num_ranks = 2, .num_stages = 2});
}

TEST_F(GpuRanked, GoesOnAfterFailedSteps) {
  auto ranks = load_ranks("llama", {});
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  test::expect_recovery_from_failed_execute(**ranks);
  auto other = load_ranks("llama", {.num_ranks = 1, .num_stages = 2});
  ASSERT_TRUE(other.ok());
  test::expect_recovery_from_failed_execute(**other);
  test::expect_recovery_from_failed_submit(**other);
  EXPECT_TRUE((*other)->health().ok());
}

// If one rank cannot capture a graph, no rank uses it.
TEST_F(GpuRanked, CapturesForAllRanksOrNone) {
  if ((*gpu_test::open_test_device())->stream().emulated() == nullptr)
    GTEST_SKIP() << "SKIPPED: captures of a real GPU cannot be made to fail";
  for (const int32_t num_failing : {1, 3}) {
    auto ranks = load_ranks("llama", {.num_failing_captures = num_failing});
    ASSERT_TRUE(ranks.ok()) << ranks.status().message();
    // After three failures in a row it gives up.
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
  (*ranks)->members().leave(1);
  EXPECT_EQ((*ranks)->health().code(), StatusCode::kUnavailable);
  const Status status = execute_dummy(**ranks, (*ranks)->plan().limits, kPlan);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("rank 1 of 2 is gone"), std::string::npos) << status.message();
}

TEST_F(GpuRanked, EndsWhenAStageIsLost) {
  auto stages = load_ranks("llama", {.num_ranks = 1, .num_stages = 3});
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  (*stages)->members().leave(1);
  EXPECT_EQ((*stages)->health().code(), StatusCode::kUnavailable);
  const Status status = execute_dummy(**stages, (*stages)->plan().limits, kPlan);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("stage 1 of 3 is gone"), std::string::npos) << status.message();
}

// When a rank of one stage is lost during a step, the other stage ends too.
TEST_F(GpuRanked, EndsWhenARankOfAStageIsLost) {
  auto stages = load_ranks("llama", {.num_stages = 2});
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  test::ContractPlans plans(**stages);
  ASSERT_TRUE((*stages)->submit(plans.first_step(RequestId(1), {1, 2, 3})).ok());
  (*stages)->members().leave(3);
  EXPECT_EQ((*stages)->collect().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ((*stages)->health().code(), StatusCode::kUnavailable);
}

// All stages wait for tokens that the last stage samples on the host.
TEST_F(GpuRanked, StagesWaitForTheHostsSampler) {
  const GpuRunnerOptions gpu{.sample_on_device = false};
  expect_bits_of_one_gpu("llama", {.num_ranks = 1, .num_stages = 2, .gpu = gpu});
}

// Requests with adapters and one without give the same bits as on one GPU.
void expect_bits_of_adapters(const RankedSetup& setup) {
  const std::vector<std::string> names = {"", "llama.plain", "llama.bias"};
  const auto requests_for = [&](const Executor& executor) {
    std::vector<DriverRequest> requests;
    for (size_t i = 0; i < names.size(); ++i) {
      requests.push_back(gpu_test::sampled_request(i + 1, 17));
      if (i == 0) continue;
      auto adapter = executor.load_adapter(names[i], test::lora_golden_dir(names[i]).string());
      QUIRE_CHECK(adapter.ok(), "{}", adapter.status().message());
      requests.back().adapter = *adapter;
    }
    return requests;
  };
  const auto alone = gpu_test::load_runner("llama", {.max_adapters = 2});
  const auto ranks = load_ranks("llama", setup);
  ASSERT_TRUE(alone.ok() && ranks.ok()) << ranks.status().message();
  PlanDriver alone_driver(**alone, test::kGoldenBlocks);
  const std::vector<DriverRequest> of_one = requests_for(**alone);
  const std::vector<DriverRequest> crowd = requests_for(**ranks);
  PlanDriver driver(**ranks, test::kGoldenBlocks);
  const auto outputs = driver.run(crowd, {.chunk = 11, .step_tokens = 40});
  for (const DriverRequest& request : of_one) {
    SCOPED_TRACE(request.id);
    gpu_test::expect_same(outputs.at(request.id), alone_driver.run({request}, {})[request.id]);
  }
  EXPECT_GT((*ranks)->graph_counts()->num_graph_steps, 0);
}

TEST_F(GpuRanked, AdaptersAreCutAsTheirLinears) {
  expect_bits_of_adapters({.num_ranks = 2, .max_adapters = 2});
}
TEST_F(GpuRanked, AdaptersAreDividedAmongStages) {
  expect_bits_of_adapters({.num_ranks = 2, .num_stages = 2, .max_adapters = 2});
}

// Each engine has its own GPUs, and answers with the bits of one GPU.
TEST_F(GpuRanked, EnginesHaveGpusOfTheirOwn) {
  auto alone = gpu_test::load_runner("llama", {});
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  PlanDriver alone_driver(**alone, test::kGoldenBlocks);
  const DriverRequest watched = gpu_test::sampled_request(1, 37);
  const DriverOutput want = alone_driver.run({watched}, {})[1];
  for (const int gpus_each : {1, 2}) {
    EngineGpus gpus{.num_engines = 2, .num_stages = gpus_each, .ops = &gpu_test::test_rank_ops()};
    for (int i = 0; i < 2 * gpus_each; ++i) gpus.devices.push_back(*gpu_test::open_test_device());
    auto engines = make_gpu_engines(options_for("llama"), {}, std::move(gpus));
    ASSERT_TRUE(engines.ok()) << engines.status().message();
    ASSERT_EQ(engines->executors.size(), 2u);
    for (const auto& executor : engines->executors) {
      ASSERT_TRUE(executor->initialize(kPlan).ok());
      ASSERT_TRUE(executor->warm_up().ok());
      PlanDriver driver(*executor, test::kGoldenBlocks);
      gpu_test::expect_same(driver.run({watched}, {})[1], want);
    }
  }
}

// Each stage takes its layers' part of the memory for as many blocks as one GPU has room for.
TEST_F(GpuRanked, StagesDivideTheMemoryForBlocks) {
  const auto alone = gpu_test::load_runner("llama", {});
  const auto stages = load_ranks("llama", {.num_ranks = 1, .num_stages = 3});
  ASSERT_TRUE(alone.ok() && stages.ok()) << stages.status().message();
  EXPECT_EQ((*stages)->kv_spec().block_bytes, (*alone)->kv_spec().block_bytes);
  EXPECT_NEAR(static_cast<double>((*stages)->available_kv_bytes()), double{8 << 20}, 64);
  EXPECT_EQ((*stages)->plan().memory.matrices, (*alone)->model().plan().memory.matrices);
  EXPECT_EQ((*stages)->runner(1).kv_spec().block_bytes * 3, (*alone)->kv_spec().block_bytes);
}

TEST_F(GpuRanked, RefusesWhatStagesDoNotDo) {
  const RankedSetup two{.num_ranks = 1, .num_stages = 2};
  const Status shared = load_ranks("zamba2", two).status();
  EXPECT_EQ(shared.code(), StatusCode::kUnimplemented);
  EXPECT_NE(shared.message().find("--pipeline-parallel-size"), std::string::npos)
      << shared.message();
  const Status many = load_ranks("llama", {.num_ranks = 1, .num_stages = 4}).status();
  EXPECT_EQ(many.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(many.message().find("1 to 3, the model's layers"), std::string::npos) << many.message();
}

TEST_F(GpuRanked, RefusesWhatRanksDoNotDo) {
  const Status measured = load_ranks("llama", {.gpu = {.deterministic = false}}).status();
  EXPECT_EQ(measured.code(), StatusCode::kUnimplemented);
  EXPECT_NE(measured.message().find("--no-deterministic"), std::string::npos) << measured.message();
  const Status dense = load_ranks("llama", {.whole_experts = ExpertCombine::kAllGather}).status();
  EXPECT_EQ(dense.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(dense.message().find("--enable-expert-parallel"), std::string::npos) << dense.message();
  const Status sparse = load_ranks("gemma3n", {}).status();
  EXPECT_EQ(sparse.code(), StatusCode::kUnimplemented);
  EXPECT_NE(sparse.message().find("--tensor-parallel-size"), std::string::npos) << sparse.message();
}

}  // namespace
}  // namespace quire
