// GpuRunner: graphs, batches and chunks change no bit; what it samples and how it fails. Linked
// twice: with the kernels compiled for the CPU, and with a GPU (skipped, with a message, where
// there is none).
#include <gtest/gtest.h>

#include <numeric>

#include "core/testing/executor_contract.h"
#include "exec/testing/gpu_runner_test_support.h"

namespace quire {
namespace {

using gpu_test::GpuRunnerTest;
using gpu_test::load_runner;
using test::DriverRequest;
using test::PlanDriver;

TEST_F(GpuRunnerTest, RefusesAHeadDimThatTheGpuHasNoSharedMemoryFor) {
  if ((*gpu_test::open_test_device())->stream().emulated() == nullptr)
    GTEST_SKIP() << "SKIPPED: a real GPU has the shared memory that it has";
  for (const bool fits : {true, false}) {
    const auto runner =
        load_runner("llama", {.emulated = {.shared_bytes_per_block = fits ? 99 << 10 : 24 << 10}});
    ASSERT_EQ(runner.ok(), fits);
    if (fits) continue;
    EXPECT_EQ(runner.status().code(), StatusCode::kUnimplemented);
    EXPECT_NE(runner.status().message().find("of shared memory per block"), std::string::npos);
  }
}

// Law L4 on a GPU: the same bits alone and in a batch, in one chunk and in several, with graphs and
// without.
TEST_F(GpuRunnerTest, BitsDoNotDependOnBatchChunksOrGraphs) {
  for (const char* model : {"llama", "qwen2_window", "qwen2_moe", "gpt_oss"}) {
    SCOPED_TRACE(model);
    auto pieces = load_runner(model, {.gpu = {.graphs = GraphMode::kPieces}});
    ASSERT_TRUE(pieces.ok());
    PlanDriver pieces_driver(**pieces, test::kGoldenBlocks);
    auto plain = load_runner(model, {.gpu = {.graphs = GraphMode::kNone}});
    auto graphs = load_runner(model, {});
    ASSERT_TRUE(plain.ok() && graphs.ok());
    PlanDriver plain_driver(**plain, test::kGoldenBlocks);
    PlanDriver graph_driver(**graphs, test::kGoldenBlocks);
    const DriverRequest watched = gpu_test::sampled_request(1, 37);
    auto alone = plain_driver.run({watched}, {});
    auto chunked = graph_driver.run({watched}, {.chunk = 11});
    gpu_test::expect_same(chunked[1], alone[1]);
    gpu_test::expect_same(pieces_driver.run({watched}, {.chunk = 11})[1], alone[1]);
    EXPECT_TRUE((*pieces)->graph_stats().launches.empty());
    EXPECT_GT((*pieces)->graph_stats().num_graph_steps(), 8);  // decode steps too
    auto crowd = graph_driver.run(
        {gpu_test::sampled_request(2, 20), watched, gpu_test::sampled_request(3, 5)},
        {.chunk = 16, .step_tokens = 40});
    gpu_test::expect_same(crowd[1], alone[1]);
    const GraphStats& stats = (*graphs)->graph_stats();
    const auto sum = [](const std::vector<int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), int64_t{0});
    };
    EXPECT_GT(sum(stats.launches), 10);
    EXPECT_GT(sum(stats.piece_launches), 2);  // of one bucket, from the second chunk on
    EXPECT_GT(stats.padding_tokens, 0);       // three requests in a graph of four
    EXPECT_EQ((*plain)->graph_stats().tokens, 0);
  }
}

TEST_F(GpuRunnerTest, GraphsAreCapturedWhileNothingRuns) {
  auto runner = load_runner("llama", {});
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ((*runner)->graph_counts()->num_graphs, 0);  // ready before any is captured
  int32_t num_pieces = 0;
  while ((*runner)->work_while_idle()) ++num_pieces;
  EXPECT_EQ(num_pieces, 12);  // of 1, 2, 4 and 6 requests, of 8, 16, … 64 tokens
  EXPECT_EQ((*runner)->graph_counts()->num_graphs, num_pieces);
  PlanDriver driver(**runner, test::kGoldenBlocks);
  const auto outputs =
      driver.run({gpu_test::sampled_request(1, 9), gpu_test::sampled_request(2, 3)}, {});
  EXPECT_TRUE(outputs.at(1).status.ok() && outputs.at(2).status.ok());
  const auto counts = (*runner)->graph_counts();
  EXPECT_EQ(counts->num_graph_steps, 9);  // every decode step, and the prompts in pieces
  EXPECT_EQ(counts->num_eager_steps, 1);  // the warm-up
  EXPECT_EQ(counts->num_eager_uncaptured, 1);
  int64_t num_steps = 0;
  for (const GraphShapeCount& shape : counts->shapes) {
    EXPECT_EQ(shape.num_steps > 0, shape.size == (shape.is_whole ? 2 : 16)) << shape.size;
    num_steps += shape.num_steps;
  }
  EXPECT_EQ(num_steps, 9);
}

// Products whose algorithms are chosen by measuring run while the engine is idle, for every number
// of tokens that has algorithms of its own: 16, 32 and 64 here.
TEST_F(GpuRunnerTest, RunsSizesWithoutGraphsWhileIdle) {
  for (const bool deterministic : {false, true}) {
    auto runner =
        load_runner("llama", {.gpu = {.graphs = GraphMode::kNone, .deterministic = deterministic}});
    ASSERT_TRUE(runner.ok());
    int num_steps = 0;
    while ((*runner)->work_while_idle()) ++num_steps;
    EXPECT_EQ(num_steps, deterministic ? 0 : 3);
    PlanDriver driver(**runner, test::kGoldenBlocks);
    const auto outputs = driver.run({gpu_test::sampled_request(1, 9)}, {});
    EXPECT_TRUE(outputs.at(1).status.ok());
  }
}

// A capture that something outside spoils is tried again. Only when captures keep failing are the
// attempts given up, and steps run without graphs.
TEST_F(GpuRunnerTest, CapturesAgainWhatFailed) {
  const auto device = gpu_test::open_test_device();
  if ((*device)->stream().emulated() == nullptr)
    GTEST_SKIP() << "SKIPPED: captures of a real GPU cannot be made to fail";
  for (const int32_t num_failing : {2, 3}) {
    auto runner = load_runner("llama", {.emulated = {.num_failing_captures = num_failing}});
    ASSERT_TRUE(runner.ok());
    while ((*runner)->work_while_idle()) {
    }
    EXPECT_EQ((*runner)->graph_counts()->num_graphs, num_failing == 2 ? 12 : 0);
    PlanDriver driver(**runner, test::kGoldenBlocks);
    const auto outputs = driver.run({gpu_test::sampled_request(1, 9)}, {});
    EXPECT_TRUE(outputs.at(1).status.ok());
  }
}

// Two steps may be under way, and the second reads the first one's token on the device.
TEST_F(GpuRunnerTest, TakesTheNextStepWhileOneRuns) {
  auto runner = load_runner("llama", {});
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ((*runner)->collect().status().code(), StatusCode::kInternal);
  const DriverRequest request = gpu_test::sampled_request(1, 5);
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
  auto alone = load_runner("llama", {});
  ASSERT_TRUE(alone.ok());
  PlanDriver driver(**alone, test::kGoldenBlocks);
  const auto want = driver.run({request}, {});
  EXPECT_EQ(tokens[0], want.at(1).token_ids[0]);
  EXPECT_EQ(tokens[1], want.at(1).token_ids[1]);
}

TEST_F(GpuRunnerTest, GoesOnAfterFailedSteps) {
  auto runner = load_runner("llama", {});
  ASSERT_TRUE(runner.ok());
  test::expect_recovery_from_failed_execute(**runner);
  auto other = load_runner("llama", {});
  ASSERT_TRUE(other.ok());
  test::expect_recovery_from_failed_submit(**other);
}

// Penalties, bad words and min_tokens depend on earlier tokens, which the device counts itself.
TEST_F(GpuRunnerTest, SamplesWithPenaltiesOnTheDevice) {
  std::vector<DriverRequest> requests;
  for (uint64_t id = 1; id <= 4; ++id) {
    DriverRequest request = gpu_test::sampled_request(id, static_cast<int32_t>(5 + 9 * id));
    request.params.max_tokens = 14;
    request.params.temperature = 1.5f;
    request.params.repetition_penalty = id == 2 ? 1.0f : 1.8f;
    request.params.presence_penalty = id == 3 ? 0.9f : 0.0f;
    request.params.frequency_penalty = id == 4 ? -0.6f : 0.3f;
    request.params.bad_words = {{3}, {11, 12}};
    request.params.min_tokens = 9;
    request.params.stop_token_ids = {1, 2, 40};
    requests.push_back(request);
  }
  auto device = load_runner("llama", {});
  auto host = load_runner("llama", {.gpu = {.sample_on_device = false}});
  ASSERT_TRUE(device.ok() && host.ok());
  PlanDriver device_driver(**device, test::kGoldenBlocks);
  PlanDriver host_driver(**host, test::kGoldenBlocks);
  auto want = host_driver.run(requests, {.step_tokens = 64});
  auto together = device_driver.run(requests, {.chunk = 12});
  auto preempted = device_driver.run(requests, {.step_tokens = 64, .preempt_after_output = 5});
  for (const DriverRequest& request : requests) {
    gpu_test::expect_same(together[request.id], want[request.id]);
    gpu_test::expect_same(preempted[request.id], want[request.id]);
    auto alone = device_driver.run({request}, {});
    gpu_test::expect_same(alone[request.id], want[request.id]);
  }
  EXPECT_EQ((*device)->num_host_sampled_steps(), 0);
  EXPECT_GT((*host)->num_host_sampled_steps(), 14);
}

// Token masks on the device and on the host, next to requests without a mask.
TEST_F(GpuRunnerTest, KeepsToTokenMasks) {
  auto device = load_runner("llama", {});
  auto host = load_runner("llama", {.gpu = {.sample_on_device = false}});
  ASSERT_TRUE(device.ok() && host.ok());
  std::vector<DriverRequest> requests;
  for (uint64_t id = 1; id <= 4; ++id) {
    DriverRequest request = gpu_test::sampled_request(id, static_cast<int32_t>(5 + 9 * id));
    if (id == 4) request.params.temperature = 0;
    if (id == 3) request.params.repetition_penalty = 1.4f;
    if (id != 2) {
      request.mask = [vocab_size = (*device)->info().vocab_size](std::span<const TokenId> known) {
        return test::third_mask(vocab_size, known);
      };
    }
    requests.push_back(request);
  }
  PlanDriver device_driver(**device, test::kGoldenBlocks);
  PlanDriver host_driver(**host, test::kGoldenBlocks);
  auto want = host_driver.run(requests, {.step_tokens = 64});
  auto got = device_driver.run(requests, {.chunk = 12});
  EXPECT_EQ((*device)->num_host_sampled_steps(), 0);
  for (const DriverRequest& request : requests) {
    gpu_test::expect_same(got[request.id], want[request.id]);
    if (!request.mask) continue;
    TokenId last = request.prompt.back();
    for (const TokenId id : got[request.id].token_ids)
      EXPECT_NE((id + std::exchange(last, id)) % 3, 0);
  }
}

// Right and wrong drafts, sampled on the device and, with penalties, on the host.
TEST_F(GpuRunnerTest, VerifiesDrafts) {
  for (const bool penalties : {false, true}) {
    SCOPED_TRACE(penalties);
    std::vector<DriverRequest> requests;
    for (uint64_t id = 1; id <= 4; ++id) {
      DriverRequest request = gpu_test::sampled_request(id, static_cast<int32_t>(5 + 9 * id));
      request.params.max_tokens = 14;
      if (id == 4) request.params.temperature = 0;
      if (penalties && id == 2) request.params.repetition_penalty = 1.5f;
      if (penalties && id == 3) request.params.bad_words = {{3}, {11, 12}};
      requests.push_back(request);
    }
    auto runner = load_runner("llama", {});
    ASSERT_TRUE(runner.ok());
    PlanDriver driver(**runner, test::kGoldenBlocks);
    const auto want = driver.run(requests, {.step_tokens = 64});
    EXPECT_EQ((*runner)->num_host_sampled_steps(), 0);
    test::DriverOptions options{.step_tokens = 64, .num_drafts = 3};
    for (const auto& [id, output] : want) options.outputs[id] = output.token_ids;
    const auto got = driver.run(requests, options);
    EXPECT_GT(driver.num_accepted_drafts(), 10);
    EXPECT_EQ((*runner)->num_host_sampled_steps() > 0, penalties);
    for (const DriverRequest& request : requests)
      gpu_test::expect_same(got.at(request.id), want.at(request.id));
  }
}

// One step in the middle can only be sampled by the host; its tokens are counted afterwards.
TEST_F(GpuRunnerTest, CountsWhatTheHostSampled) {
  DriverRequest watched = gpu_test::sampled_request(1, 20);
  watched.params.repetition_penalty = 1.7f;
  watched.params.max_tokens = 12;
  DriverRequest for_the_host = gpu_test::sampled_request(2, 7);
  for_the_host.params.logprobs = 30;
  for_the_host.params.max_tokens = 4;
  auto runner = load_runner("llama", {});
  ASSERT_TRUE(runner.ok());
  PlanDriver driver(**runner, test::kGoldenBlocks);
  auto alone = driver.run({watched}, {});
  EXPECT_EQ((*runner)->num_host_sampled_steps(), 0);
  auto mixed = driver.run({watched, for_the_host}, {});
  EXPECT_EQ((*runner)->num_host_sampled_steps(), 4);
  gpu_test::expect_same(mixed[1], alone[1]);
}

TEST_F(GpuRunnerTest, PlansMemoryOfTheDevice) {
  auto runner = load_runner("llama", {});
  ASSERT_TRUE(runner.ok());
  const MemoryPlan& memory = (*runner)->model().plan().memory;
  EXPECT_EQ(memory.kv_cache, int64_t{8} << 20);
  EXPECT_GT(memory.graphs, 0);
  EXPECT_NE(memory.table().find("graphs"), std::string::npos);
}

}  // namespace
}  // namespace quire
