// GpuRunner against what transformers computes; graphs, batches and chunks leave no trace. Linked
// twice: with the kernels compiled for the CPU, and with a GPU (skipped by name where there is
// none).
#include "exec/gpu_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "exec/golden_support.h"
#include "exec/test_driver.h"
#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

using test::DriverOutput;
using test::DriverRequest;
using test::LogitsByPosition;
using test::PlanDriver;

// As on the CPU (model_goldens_test.cc), where the rounding of a bf16 forward pass is argued.
constexpr double kBf16Budget = 0.05;

Result<std::unique_ptr<GpuRunner>> load(const std::string& model, const GpuRunnerOptions& options,
                                        int64_t max_model_len, LogitsByPosition* seen) {
  QUIRE_ASSIGN_OR_RETURN(ModelFiles files,
                         ModelFiles::open(test::golden_model(test::golden_dir(model))));
  ModelRunnerOptions runner_options;
  runner_options.files = std::make_shared<const ModelFiles>(std::move(files));
  runner_options.max_model_len = max_model_len;
  runner_options.kv_cache_memory_bytes = int64_t{8} << 20;
  runner_options.threads = 1;
  runner_options.pin_threads = false;
  runner_options.max_num_batched_tokens = 64;
  runner_options.max_num_seqs = 6;
  if (seen != nullptr) {
    runner_options.on_logits = [seen](RequestId, int32_t position, std::span<const float> logits) {
      (*seen)[position].assign(logits.begin(), logits.end());
    };
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, gpu_test::open_test_device());
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRunner> runner,
                         GpuRunner::create(std::move(runner_options), options, std::move(device)));
  QUIRE_RETURN_IF_ERROR(runner->initialize({.num_blocks = test::kGoldenBlocks}));
  QUIRE_RETURN_IF_ERROR(runner->warm_up());
  return runner;
}

class GpuRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = gpu_test::open_test_device();
    if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
  }
};

class GpuGolden : public GpuRunnerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuGolden, LogitsWithinTheBudgetOfBf16) {
  const test::Golden golden = test::read_golden(test::golden_dir(GetParam()));
  LogitsByPosition seen;
  auto runner = load(GetParam(), {.graphs = false}, golden.max_model_len, &seen);
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  seen.clear();
  std::vector<TokenId> all = golden.prompt;
  all.insert(all.end(), golden.tokens.begin(), golden.tokens.end());
  PlanDriver driver(**runner, test::kGoldenBlocks);
  auto outputs = driver.run({test::greedy_request(all, 1)}, {.chunk = 40, .step_tokens = 64});
  ASSERT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  EXPECT_LE(test::worst_error(golden, seen), kBf16Budget);
  for (size_t i = 0; i < golden.tokens.size(); ++i) {  // near-tie rule
    const std::vector<float>& row = seen[static_cast<int32_t>(golden.prompt.size() + i)];
    const float best = *std::max_element(row.begin(), row.end());
    double norm = 0.0;
    for (const float x : row) norm += double{x} * x;
    EXPECT_LE(best - row[static_cast<size_t>(golden.tokens[i])], kBf16Budget * std::sqrt(norm))
        << "step " << i;
  }
}

// One per family and feature whose head dim a GPU takes.
INSTANTIATE_TEST_SUITE_P(All, GpuGolden,
                         ::testing::Values("llama", "llama3_scaled", "llama_bf16_sharded",
                                           "llama_dynamic", "llama_f16_bias", "gemma3_linear",
                                           "gpt2", "mistral", "phi3_long", "phi3_window_partial",
                                           "qwen2", "qwen2_window", "qwen3_yarn_mscale"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(GpuRunnerTest, RefusesAHeadDimThatKernelsDoNotTake) {
  const auto runner = load("qwen3", {}, 0, nullptr);
  ASSERT_FALSE(runner.ok());
  EXPECT_EQ(runner.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(runner.status().message().find("head dim"), std::string::npos);
}

DriverRequest sampled_request(uint64_t id, int32_t prompt_tokens) {
  DriverRequest request{.id = id};
  for (int32_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<TokenId>((i * 31 + static_cast<int32_t>(id) * 7) % 90));
  request.params.max_tokens = 9;
  request.params.temperature = 0.8f;
  request.params.seed = id;
  request.params.logprobs = 2;
  return request;
}

void expect_same(const DriverOutput& a, const DriverOutput& b) {
  ASSERT_TRUE(a.status.ok()) << a.status.message();
  EXPECT_EQ(a.token_ids, b.token_ids);
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (size_t i = 0; i < a.logprobs.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(a.logprobs[i].logprob),
              std::bit_cast<uint32_t>(b.logprobs[i].logprob));
    EXPECT_EQ(a.logprobs[i].top, b.logprobs[i].top);
  }
}

// Law L4 on a GPU: alone or in a batch, in one chunk or several, with graphs or without.
TEST_F(GpuRunnerTest, BitsDoNotDependOnBatchChunksOrGraphs) {
  for (const char* model : {"llama", "qwen2_window"}) {
    SCOPED_TRACE(model);
    auto plain = load(model, {.graphs = false}, 0, nullptr);
    auto graphs = load(model, {.graphs = true}, 0, nullptr);
    ASSERT_TRUE(plain.ok() && graphs.ok());
    PlanDriver plain_driver(**plain, test::kGoldenBlocks);
    PlanDriver graph_driver(**graphs, test::kGoldenBlocks);
    const DriverRequest watched = sampled_request(1, 37);
    auto alone = plain_driver.run({watched}, {});
    auto chunked = graph_driver.run({watched}, {.chunk = 11});
    expect_same(chunked[1], alone[1]);
    auto crowd = graph_driver.run({sampled_request(2, 20), watched, sampled_request(3, 5)},
                                  {.chunk = 16, .step_tokens = 40});
    expect_same(crowd[1], alone[1]);
    const GraphStats& stats = (*graphs)->graph_stats();
    const auto sum = [](const std::vector<int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), int64_t{0});
    };
    EXPECT_GT(sum(stats.launches), 10);
    EXPECT_GT(sum(stats.piece_launches), 2);  // chunks of one bucket, the second on
    EXPECT_GT(stats.padding_tokens, 0);       // three requests in a graph of four
    EXPECT_EQ((*plain)->graph_stats().tokens, 0);
  }
}

TEST_F(GpuRunnerTest, GraphsAreCapturedWhileNothingRuns) {
  auto runner = load("llama", {}, 0, nullptr);
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ((*runner)->graph_counts()->num_graphs, 0);  // ready before any is captured
  int32_t num_pieces = 0;
  while ((*runner)->work_while_idle()) ++num_pieces;
  EXPECT_EQ(num_pieces, 12);  // of 1, 2, 4 and 6 requests, of 8, 16, … 64 tokens
  EXPECT_EQ((*runner)->graph_counts()->num_graphs, num_pieces);
  PlanDriver driver(**runner, test::kGoldenBlocks);
  const auto outputs = driver.run({sampled_request(1, 9), sampled_request(2, 3)}, {});
  EXPECT_TRUE(outputs.at(1).status.ok() && outputs.at(2).status.ok());
  const auto counts = (*runner)->graph_counts();
  EXPECT_EQ(counts->num_graph_steps, 9);  // every decode step, and the prompts in pieces
  EXPECT_EQ(counts->num_eager_steps, 1);  // the warm-up
}

// Two steps may be under way, and the second takes the first one's token from the device.
TEST_F(GpuRunnerTest, TakesTheNextStepWhileOneRuns) {
  auto runner = load("llama", {}, 0, nullptr);
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ((*runner)->collect().status().code(), StatusCode::kInternal);
  const DriverRequest request = sampled_request(1, 5);
  StepPlan plan;
  plan.step_id = 1;
  plan.new_requests.push_back(
      {RequestId{1}, request.prompt, 5, std::make_shared<SamplingParams>(request.params)});
  const auto num_groups = static_cast<int32_t>((*runner)->kv_spec().groups.size());
  for (int32_t group = 0; group < num_groups; ++group)
    plan.block_updates.push_back({0, group, 0, BlockId{group + 1}});
  plan.scheduled.push_back({RequestId{1}, 0, 5});
  ASSERT_TRUE((*runner)->submit(plan).ok());
  plan.clear();
  plan.step_id = 2;
  plan.scheduled.push_back({RequestId{1}, 5, 1});
  ASSERT_TRUE((*runner)->submit(plan).ok());
  EXPECT_EQ((*runner)->submit(plan).code(), StatusCode::kInternal);  // a third
  EXPECT_EQ((*runner)->execute(plan).status().code(), StatusCode::kInternal);
  std::vector<TokenId> tokens;
  for (uint64_t step = 1; step <= 2; ++step) {
    const Result<StepResult> result = (*runner)->collect();
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->step_id, step);
    ASSERT_EQ(result->requests[0].sampled_token_ids.size(), 1u);
    tokens.push_back(result->requests[0].sampled_token_ids[0]);
  }
  auto alone = load("llama", {}, 0, nullptr);
  ASSERT_TRUE(alone.ok());
  PlanDriver driver(**alone, test::kGoldenBlocks);
  const auto want = driver.run({request}, {});
  EXPECT_EQ(tokens[0], want.at(1).token_ids[0]);
  EXPECT_EQ(tokens[1], want.at(1).token_ids[1]);
}

TEST_F(GpuRunnerTest, PlansMemoryOfTheDevice) {
  auto runner = load("llama", {}, 0, nullptr);
  ASSERT_TRUE(runner.ok());
  const MemoryPlan& memory = (*runner)->plan().memory;
  EXPECT_EQ(memory.kv_cache, int64_t{8} << 20);
  EXPECT_GT(memory.graphs, 0);
  EXPECT_NE(memory.table().find("graphs"), std::string::npos);
}

}  // namespace
}  // namespace quire
