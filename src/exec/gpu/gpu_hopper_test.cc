// Whole models with the kernels that exist only for compute capability 9.0: prefill by warpgroup
// products. Runs on a GPU, and on the emulated device, which reports that capability.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/testing/gpu_runner_test_support.h"

namespace quire {
namespace {

using gpu_test::GpuRunnerTest;
using gpu_test::load_runner;
using gpu_test::RunnerSetup;
using test::DriverOutput;
using test::DriverRequest;
using test::PlanDriver;

constexpr double kHopperBf16Budget = 0.05;  // of a forward pass in bf16

RunnerSetup hopper(bool deterministic) {
  return {.gpu = {.deterministic = deterministic}, .emulated = {.compute_capability = 90}};
}

class GpuHopperGolden : public GpuRunnerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuHopperGolden, LogitsWithinTheBudgetOfBf16) {
  for (const bool deterministic : {false, true}) {
    SCOPED_TRACE(deterministic);
    gpu_test::expect_golden(GetParam(), hopper(deterministic), kHopperBf16Budget);
  }
}
// Models with groups of query heads, windows, capped scores and biases.
INSTANTIATE_TEST_SUITE_P(All, GpuHopperGolden,
                         ::testing::Values("llama", "gemma3_linear", "gpt2", "phi3_window_partial",
                                           "qwen2_window"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(GpuRunnerTest, HopperKernelsTakeAnFp8Cache) {
  RunnerSetup setup = hopper(false);
  setup.kv_cache_dtype = "fp8";
  gpu_test::expect_golden("awq_llama", setup, 2 * kHopperBf16Budget);
}

// Law L4 when warpgroup products compute every prefill chunk and the decode kernel every later
// token: alone, in a crowd, in chunks, after a prefix hit and after a preemption. On a GPU it holds
// as far as warpgroup products round sums as a warp's products do.
TEST_F(GpuRunnerTest, HopperBitsDoNotDependOnBatchChunksHitsOrPreemption) {
  for (const char* model : {"llama", "qwen2_window"}) {
    SCOPED_TRACE(model);
    auto runner = load_runner(model, hopper(true));
    auto plain = load_runner(model, {});
    ASSERT_TRUE(runner.ok() && plain.ok());
    PlanDriver driver(**runner, test::kGoldenBlocks);
    PlanDriver plain_driver(**plain, test::kGoldenBlocks);
    const DriverRequest watched = gpu_test::sampled_request(1, 50);
    auto alone = driver.run({watched}, {});
    gpu_test::expect_same(alone[1], plain_driver.run({watched}, {})[1]);
    auto chunked = driver.run({watched}, {.chunk = 23});
    gpu_test::expect_same(chunked[1], alone[1]);
    auto crowd =
        driver.run({gpu_test::sampled_request(2, 20), watched, gpu_test::sampled_request(3, 41)},
                   {.chunk = 30, .step_tokens = 64});
    gpu_test::expect_same(crowd[1], alone[1]);
    auto preempted = driver.run({watched, gpu_test::sampled_request(4, 33)},
                                {.step_tokens = 64, .preempt_after_output = 4});
    gpu_test::expect_same(preempted[1], alone[1]);
    DriverRequest again = watched;
    again.id = 9;
    const DriverOutput hit = driver.run_after_hit(again, 1, 2, {});
    gpu_test::expect_same(hit, alone[1]);
  }
}

// Expects tokens and logprobs to differ by no more than bf16 rounding, up to the first token whose
// two best logits are nearly equal.
void expect_near(const DriverOutput& a, const DriverOutput& b) {
  constexpr float kNear = 0.1f;
  ASSERT_TRUE(a.status.ok()) << a.status.message();
  ASSERT_EQ(a.token_ids.size(), b.token_ids.size());
  for (size_t i = 0; i < a.token_ids.size(); ++i) {
    EXPECT_NEAR(a.logprobs[i].logprob, b.logprobs[i].logprob, kNear) << "token " << i;
    if (a.token_ids[i] != b.token_ids[i]) return;
  }
}

// --no-deterministic uses short splits, and answers differ by rounding alone.
TEST_F(GpuRunnerTest, WithoutDeterminismAnswersDifferByRoundingAlone) {
  for (const char* model : {"llama", "qwen2_window"}) {
    SCOPED_TRACE(model);
    auto runner = load_runner(model, hopper(false));
    auto deterministic = load_runner(model, {});
    ASSERT_TRUE(runner.ok() && deterministic.ok());
    PlanDriver driver(**runner, test::kGoldenBlocks);
    PlanDriver plain_driver(**deterministic, test::kGoldenBlocks);
    DriverRequest watched = gpu_test::sampled_request(1, 50);
    watched.params.temperature = 0.0f;
    const DriverOutput want = plain_driver.run({watched}, {})[1];
    expect_near(driver.run({watched}, {})[1], want);
    expect_near(driver.run({watched}, {.chunk = 17})[1], want);
    expect_near(driver.run({gpu_test::sampled_request(2, 20), watched}, {.chunk = 30})[1], want);
    expect_near(driver.run({watched}, {.preempt_after_output = 4})[1], want);
  }
}

}  // namespace
}  // namespace quire
