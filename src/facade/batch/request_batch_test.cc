#include "facade/batch/request_batch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/observe/engine_stats.h"
#include "engine/testing/engine_test_support.h"
#include "facade/running_llm.h"

namespace quire {
namespace {

using test::request;
using test::tokens;

// Room for two requests that wait beside two that run.
test::RigOptions small_queue() {
  test::RigOptions options = test::small_rig();
  options.fake.step_us = 0;
  options.engine.scheduler.max_num_seqs = 2;
  options.engine.scheduler.max_num_queued_reqs = 2;
  return options;
}

std::unique_ptr<AsyncEngine> start(const test::RigOptions& options) {
  auto engine = make_async_engine(options.engine, std::make_unique<FakeExecutor>(options.fake),
                                  nullptr, std::make_shared<SteadyClock>());
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

TEST(RequestBatch, TakesMoreRequestsThanTheQueue) {
  const test::RigOptions options = small_queue();
  const FakeExecutor expected(options.fake);
  const auto engine = start(options);
  std::vector<std::vector<TokenId>> answers(40);
  RequestBatch batch(*engine, [&](size_t i, OutputDelta delta) {
    answers[i].insert(answers[i].end(), delta.token_ids.begin(), delta.token_ids.end());
  });
  const auto request_of = [](size_t i) {
    const auto n = static_cast<int32_t>(i);
    return request(tokens(5 + n, n), 1 + n % 7);
  };
  for (size_t i = 0; i < answers.size(); ++i) {
    const Status added = batch.add(request_of(i));
    ASSERT_TRUE(added.ok()) << added.message();
  }
  const Status finished = batch.finish();
  ASSERT_TRUE(finished.ok()) << finished.message();
  for (size_t i = 0; i < answers.size(); ++i) {
    const GenerationRequest one = request_of(i);
    EXPECT_EQ(answers[i], expected.expected_output(one.prompt_token_ids, one.params)) << i;
  }
}

// Neither may keep the caller waiting: a request that never fits, and one that fails while a later
// one waits for room.
TEST(RequestBatch, GivesErrorsBack) {
  test::RigOptions options = small_queue();
  options.fake.fail_request = [](RequestId, uint64_t) { return internal_error("logits: NaN"); };
  const auto engine = start(options);
  RequestBatch batch(*engine, [](size_t, OutputDelta) {});
  GenerationRequest wide = request(tokens(5), 3);
  wide.num_choices = 3;
  EXPECT_EQ(batch.add(wide).code(), StatusCode::kTooLarge);
  Status status;
  for (int i = 0; i < 40 && status.ok(); ++i) status = batch.add(request(tokens(5, i), 3));
  if (status.ok()) status = batch.finish();
  EXPECT_EQ(status.code(), StatusCode::kInternal) << status.message();
}

TEST(RequestBatch, GenerateTakesMorePromptsThanTheQueue) {
  EngineArgs args;
  args.device = "cpu";
  args.num_threads = 2;
  args.engine.log_interval_us = 0;
  args.engine.scheduler.max_num_seqs = 2;
  args.engine.scheduler.max_num_queued_reqs = 2;
  const auto llm = load_llm(args);
  ASSERT_TRUE(llm.ok()) << llm.status().message();
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = 3;
  std::vector<std::string> prompts;
  for (int i = 0; i < 12; ++i) prompts.push_back(fmt::format("The number {} is", i));
  const auto outputs = (*llm)->generate(prompts, params);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  ASSERT_EQ(outputs->size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = (*llm)->generate({prompts[i]}, params);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    EXPECT_EQ((*outputs)[i].prompt_token_ids, (*alone)[0].prompt_token_ids);
    EXPECT_EQ((*outputs)[i].choices[0].token_ids, (*alone)[0].choices[0].token_ids);
  }
}

}  // namespace
}  // namespace quire
