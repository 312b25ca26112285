#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sched/requests/queue_limits.h"
#include "sched/stop_check.h"
#include "sched/testing/content_executor.h"

namespace quire {
namespace {

constexpr int32_t kVocab = 1000;

KvSpec one_group(int32_t block_size) {
  return {.block_size = block_size,
          .groups = {{.kind = KvKind::kFull, .sliding_window = 0, .layers = {0}}},
          .block_bytes = 1};
}

Request make_request(uint64_t id, int32_t num_prompt_tokens, SamplingParams params = {}) {
  Request request;
  request.id = RequestId(id);
  for (int32_t i = 0; i < num_prompt_tokens; ++i)
    request.token_ids.push_back(static_cast<int32_t>(id) * 1000 + i);
  request.params = std::make_shared<SamplingParams>(std::move(params));
  request.arrival_us = static_cast<int64_t>(id);
  return request;
}

SamplingParams max_tokens(int32_t count) {
  SamplingParams params;
  params.max_tokens = count;
  return params;
}

class SchedulerTest : public testing::Test {
 protected:
  // Runs a step in which the executor samples `token` for every request.
  std::span<const RequestUpdate> run_step(TokenId token) {
    result_ = executor_.execute(scheduler_.schedule(++now_));
    for (RequestStepResult& r : result_.requests) {
      for (TokenId& t : r.sampled_token_ids) t = token;
    }
    return scheduler_.update(result_, now_);
  }

  SchedulerConfig config_ = [] {
    SchedulerConfig config;
    config.max_num_batched_tokens = 64;
    config.max_num_seqs = 4;
    config.max_model_len = 64;
    return config;
  }();
  KvManager kv_{one_group(4), 41, {}};
  Scheduler scheduler_{config_, kv_};
  test::ContentExecutor executor_{one_group(4), 41, kVocab};
  StepResult result_;
  int64_t now_ = 0;
};

TEST_F(SchedulerTest, UpdateNamesTheStopToken) {
  SamplingParams params = max_tokens(10);
  params.stop_token_ids = {5, 6};
  ASSERT_TRUE(scheduler_.add(make_request(1, 4, params), 0).ok());
  EXPECT_FALSE(run_step(9)[0].finished);
  EXPECT_EQ(scheduler_.find(RequestId(1))->num_output_tokens(), 1);
  const auto updates = run_step(6);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].finished, RequestStatus::kFinishedStopped);
  EXPECT_EQ(updates[0].stop_token_id, 6);
  ASSERT_EQ(updates[0].new_token_ids.size(), 1u);
  EXPECT_EQ(updates[0].result, &result_.requests[0]);
  EXPECT_EQ(kv_.stats().num_free_blocks, 40);
  // Still found until the next schedule().
  ASSERT_NE(scheduler_.find(RequestId(1)), nullptr);
  EXPECT_EQ(scheduler_.find(RequestId(1))->token_ids.back(), 6);
  EXPECT_FALSE(scheduler_.has_unfinished());
  scheduler_.schedule(++now_);
  EXPECT_EQ(scheduler_.find(RequestId(1)), nullptr);
}

// The searches whose beams move in one call need not be one.
TEST_F(SchedulerTest, BeamsOfTwoSearchesMoveInOneCall) {
  for (const uint64_t id : {1, 2}) {
    Request request = make_request(id, 4, max_tokens(10));
    request.kind = RequestKind::kBeam;
    request.num_prompt_tokens = 4;
    ASSERT_TRUE(scheduler_.add(std::move(request), 0).ok());
  }
  run_step(9);
  const std::vector<BeamMove> moves = {
      {.id = RequestId(1), .parent = RequestId(1), .token_id = 31},
      {.id = RequestId(2), .parent = RequestId(2), .token_id = 32}};
  scheduler_.move_beams(moves);
  run_step(9);
  for (const uint64_t id : {1, 2}) {
    const Request* const moved = scheduler_.find(RequestId(id));
    ASSERT_NE(moved, nullptr);
    ASSERT_EQ(moved->num_output_tokens(), 1) << id;
    EXPECT_EQ(moved->token_ids.back(), static_cast<TokenId>(30 + id));
  }
}

TEST(StopCheck, OrderIsMinTokensEosStopIdsLength) {
  SamplingParams params;
  params.max_tokens = 4;
  params.min_tokens = 3;
  params.eos_token_ids = {2};
  params.stop_token_ids = {2, 7};
  Request request = make_request(1, 3, params);
  request.num_prompt_tokens = 3;
  const auto append = [&](TokenId token) {
    request.token_ids.push_back(token);
    return check_stop(request, 100);
  };
  EXPECT_FALSE(append(2).finished) << "below min_tokens";
  EXPECT_FALSE(append(7).finished);
  StopDecision third = append(2);
  EXPECT_EQ(third.finished, RequestStatus::kFinishedStopped);
  EXPECT_FALSE(third.stop_token_id) << "EOS comes before stop ids";
  request.token_ids.back() = 7;
  third = check_stop(request, 100);
  EXPECT_EQ(third.stop_token_id, 7);
  request.token_ids.back() = 50;
  EXPECT_FALSE(check_stop(request, 100).finished);
  EXPECT_EQ(check_stop(request, 6).finished, RequestStatus::kFinishedLength)
      << "the model's length";
  EXPECT_EQ(append(51).finished, RequestStatus::kFinishedLength);
  request.token_ids.back() = 2;
  EXPECT_EQ(check_stop(request, 100).finished, RequestStatus::kFinishedStopped)
      << "EOS before length";
}

TEST(StopCheck, IgnoreEosAndTheModelsLengthBelowMinTokens) {
  SamplingParams params;
  params.max_tokens = 9;
  params.min_tokens = 9;
  params.ignore_eos = true;
  params.eos_token_ids = {2};
  Request request = make_request(1, 3, params);
  request.num_prompt_tokens = 3;
  request.token_ids.push_back(2);
  EXPECT_FALSE(check_stop(request, 5).finished);
  request.token_ids.push_back(2);
  EXPECT_EQ(check_stop(request, 5).finished, RequestStatus::kFinishedLength);
}

TEST_F(SchedulerTest, APooledRequestComputesThePromptAndNothingElse) {
  Request request = make_request(1, 64, max_tokens(0));
  request.kind = RequestKind::kPool;
  ASSERT_TRUE(scheduler_.add(std::move(request), 0).ok()) << "needs no room for output";
  const auto updates = run_step(9);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_TRUE(updates[0].new_token_ids.empty());
  EXPECT_EQ(updates[0].finished, RequestStatus::kFinishedLength);
  EXPECT_EQ(scheduler_.find(RequestId(1))->num_output_tokens(), 0);
}

TEST_F(SchedulerTest, OneRequestsFailureIsItsOwn) {
  ASSERT_TRUE(scheduler_.add(make_request(1, 4, max_tokens(3)), 0).ok());
  ASSERT_TRUE(scheduler_.add(make_request(2, 9, max_tokens(3)), 0).ok());
  executor_.fail_next(RequestId(2));
  const auto updates = run_step(9);
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_FALSE(updates[0].finished);
  EXPECT_EQ(updates[1].finished, RequestStatus::kFinishedError);
  EXPECT_EQ(updates[1].status.message(), "injected");
  EXPECT_EQ(kv_.probe(std::vector<TokenId>{2000, 2001, 2002, 2003}, {}).num_tokens, 0)
      << "KV-5: a failed step registers nothing";
  EXPECT_EQ(scheduler_.num_running(), 1);
}

TEST_F(SchedulerTest, AMissingOrMalformedResultFailsTheRequest) {
  for (uint64_t id = 1; id <= 3; ++id)
    ASSERT_TRUE(scheduler_.add(make_request(id, 4, max_tokens(3)), 0).ok());
  StepResult result = executor_.execute(scheduler_.schedule(++now_));
  result.requests.erase(result.requests.begin());
  result.requests[0].sampled_token_ids.clear();
  const auto updates = scheduler_.update(result, now_);
  ASSERT_EQ(updates.size(), 3u);
  EXPECT_EQ(updates[0].id, RequestId(2));
  EXPECT_EQ(updates[0].status.message(), "request 2: expected 1 sampled tokens, got 0");
  EXPECT_EQ(updates[1].id, RequestId(3));
  EXPECT_FALSE(updates[1].finished);
  EXPECT_EQ(updates[2].status.message(), "request 1: the executor gave no result");
  EXPECT_EQ(updates[2].result, nullptr);
  EXPECT_EQ(scheduler_.num_running(), 1);
}

TEST_F(SchedulerTest, AResultForAnAbortedRequestIsIgnored) {
  ASSERT_TRUE(scheduler_.add(make_request(1, 4, max_tokens(3)), 0).ok());
  const StepResult result = executor_.execute(scheduler_.schedule(++now_));
  EXPECT_TRUE(scheduler_.finish(RequestId(1), RequestStatus::kFinishedAborted));
  EXPECT_TRUE(scheduler_.update(result, now_).empty());
  EXPECT_FALSE(scheduler_.finish(RequestId(1), RequestStatus::kFinishedAborted));
  EXPECT_EQ(kv_.stats().num_free_blocks, 40);
  // The id may come again; the old result must not touch the new request.
  scheduler_.schedule(++now_);
  ASSERT_TRUE(scheduler_.add(make_request(1, 4, max_tokens(3)), 0).ok());
  scheduler_.schedule(++now_);
  EXPECT_TRUE(scheduler_.update(result, now_).empty());
  EXPECT_EQ(scheduler_.find(RequestId(1))->num_output_tokens(), 0);
}

TEST_F(SchedulerTest, RequestsOfAPlanWithoutUpdateAreLeftAlone) {
  ASSERT_TRUE(scheduler_.add(make_request(1, 4, max_tokens(3)), 0).ok());
  const StepResult first = executor_.execute(scheduler_.schedule(++now_));
  EXPECT_TRUE(scheduler_.schedule(++now_).empty());
  ASSERT_TRUE(scheduler_.add(make_request(2, 4, max_tokens(3)), 0).ok());
  const StepPlan& second_plan = scheduler_.schedule(++now_);
  ASSERT_EQ(second_plan.scheduled.size(), 1u);
  EXPECT_EQ(second_plan.scheduled[0].id, RequestId(2));
  const StepResult second = executor_.execute(second_plan);
  EXPECT_EQ(scheduler_.update(first, now_).size(), 1u);
  EXPECT_EQ(scheduler_.update(second, now_).size(), 1u);
  EXPECT_EQ(scheduler_.schedule(++now_).scheduled.size(), 2u);
  EXPECT_TRUE(executor_.errors().empty());
}

TEST_F(SchedulerTest, DroppedWaitsForAPlanThatIsExecuted) {
  ASSERT_TRUE(scheduler_.add(make_request(1, 4, max_tokens(3)), 0).ok());
  run_step(9);
  scheduler_.finish(RequestId(1), RequestStatus::kFinishedAborted);
  const StepPlan& empty = scheduler_.schedule(++now_);
  EXPECT_TRUE(empty.empty() && empty.dropped.empty());
  ASSERT_TRUE(scheduler_.add(make_request(2, 4, max_tokens(3)), 0).ok());
  EXPECT_EQ(scheduler_.schedule(++now_).dropped, std::vector<RequestId>{RequestId(1)});
}

TEST_F(SchedulerTest, AForkMustHaveItsLeadersPromptAndKeys) {
  ASSERT_TRUE(scheduler_.add(make_request(1, 4), 0).ok());
  Request other = make_request(2, 4);
  other.fork_of = RequestId(1);
  EXPECT_EQ(scheduler_.add(other, 0).code(), StatusCode::kInvalidArgument);
  other.token_ids = scheduler_.find(RequestId(1))->token_ids;
  other.cache_keys.salt = "x";
  EXPECT_EQ(scheduler_.add(other, 0).code(), StatusCode::kInvalidArgument);
  other.cache_keys.salt.clear();
  EXPECT_TRUE(scheduler_.add(other, 0).ok());
}

TEST_F(SchedulerTest, SlotsAreFullyUsedButForTheLastBlock) {
  ASSERT_TRUE(scheduler_.add(make_request(1, 33, max_tokens(4)), 0).ok());
  for (int32_t i = 0; i < 4; ++i) run_step(9);
  const SchedulerStats stats = scheduler_.stats();
  EXPECT_EQ(stats.reserved_slot_steps, 3 * 36);  // the last update has freed everything
  EXPECT_EQ(stats.unused_slot_steps, 3 + 2 + 1);
  EXPECT_NEAR(stats.wasted_kv_share(), 6.0 / 108.0, 1e-12);
}

// Three requests that together outgrow the cache, with long outputs.
TEST_F(SchedulerTest, AHardReservationIsNeverPreempted) {
  for (const int32_t most : {1, 0}) {
    SCOPED_TRACE(most);
    KvManager kv(one_group(4), 13, {.enable_prefix_caching = false});
    SchedulerConfig config = config_;
    config.max_model_len = 40;
    config.watermark = 0.0;
    config.max_preemptions = most;
    Scheduler scheduler(config, kv);
    test::ContentExecutor executor(one_group(4), 13, kVocab);
    for (uint64_t id = 1; id <= 4; ++id)
      ASSERT_TRUE(scheduler.add(make_request(id, 4, max_tokens(36)), 0).ok());
    int32_t num_steps = 0;
    while (scheduler.has_unfinished()) {
      ASSERT_LT(++num_steps, 1000);
      const StepPlan& plan = scheduler.schedule(num_steps);
      for (uint64_t id = 1; id <= 4; ++id) {
        const Request* request = scheduler.find(RequestId(id));
        EXPECT_TRUE(request == nullptr || request->num_preemptions <= most) << "request " << id;
      }
      if (plan.empty()) continue;
      scheduler.update(executor.execute(plan), num_steps);
    }
    EXPECT_TRUE(executor.errors().empty());
    EXPECT_EQ(scheduler.stats().num_preemptions > 0, most > 0);
  }
}

// A held request computes its known tokens but the last and samples nothing; others go on.
TEST_F(SchedulerTest, AHeldRequestSamplesNothing) {
  ASSERT_TRUE(scheduler_.add(make_request(1, 6, max_tokens(3)), 0).ok());
  ASSERT_TRUE(scheduler_.add(make_request(2, 4, max_tokens(3)), 0).ok());
  ASSERT_TRUE(scheduler_.add(make_request(3, 1, max_tokens(3)), 0).ok());
  scheduler_.hold(RequestId(1), true);
  scheduler_.hold(RequestId(3), true);
  run_step(9);
  EXPECT_EQ(scheduler_.find(RequestId(1))->num_computed_tokens, 5);
  EXPECT_EQ(scheduler_.find(RequestId(1))->num_output_tokens(), 0);
  EXPECT_EQ(scheduler_.find(RequestId(2))->num_output_tokens(), 1);
  EXPECT_EQ(scheduler_.num_waiting(), 1);  // request 3, which has one token
  run_step(9);
  EXPECT_EQ(scheduler_.find(RequestId(2))->num_output_tokens(), 2);
  EXPECT_EQ(scheduler_.max_decode_run(), 0);
  scheduler_.hold(RequestId(1), false);
  scheduler_.hold(RequestId(3), false);
  run_step(9);
  EXPECT_EQ(scheduler_.find(RequestId(1))->num_output_tokens(), 1);
  EXPECT_EQ(scheduler_.find(RequestId(3))->num_output_tokens(), 1);
  scheduler_.hold(RequestId(1), true);  // in mid-output
  EXPECT_EQ(scheduler_.schedule(++now_).scheduled.size(), 1u);
}

// With two steps under way, a request is not planned beyond a token whose value must be seen first.
TEST_F(SchedulerTest, ARequestThatWaitsForValuesHasOneOpenToken) {
  config_.async_scheduling = true;
  Scheduler scheduler(config_, kv_);
  for (const bool waits : {false, true}) {
    Request request = make_request(waits ? 2 : 1, 4, max_tokens(8));
    request.waits_for_values = waits;
    ASSERT_TRUE(scheduler.add(std::move(request), 0).ok());
    EXPECT_EQ(scheduler.schedule(1).scheduled.size(), 1u);
    EXPECT_EQ(scheduler.schedule(2).scheduled.size(), waits ? 0u : 1u);
    scheduler.finish(RequestId(waits ? 2 : 1), RequestStatus::kFinishedAborted);
  }
}

// The stages behind the first one have no work until a first piece of a prompt reaches them.
TEST(Scheduler, PromptsGoThroughAPipelineInPieces) {
  const SchedulerConfig config{
      .max_num_batched_tokens = 512, .max_num_seqs = 4, .max_model_len = 512, .pipeline_depth = 2};
  KvManager kv(one_group(4), 400, {});
  Scheduler scheduler(config, kv);
  ASSERT_TRUE(scheduler.add(make_request(1, 300, max_tokens(10)), 0).ok());
  EXPECT_EQ(scheduler.schedule(1).total_num_scheduled_tokens, 65);  // 64, and one for each request
  EXPECT_EQ(scheduler.schedule(2).total_num_scheduled_tokens, 65);
  // If reading the weights takes as long as 30 tokens, a piece has eight times as many.
  scheduler.set_step_times({.step_us = 300, .prompt_token_us = 10});
  ASSERT_TRUE(scheduler.add(make_request(2, 300, max_tokens(10)), 0).ok());
  EXPECT_EQ(scheduler.schedule(3).total_num_scheduled_tokens, 241);
  scheduler.set_step_times({.step_us = 1, .prompt_token_us = 10});
  EXPECT_EQ(scheduler.schedule(4).total_num_scheduled_tokens, 17);
}

TEST(QueueLimits, RetryAfterIsQueuedTokensOverPrefillRate) {
  SchedulerConfig config;
  QueueLimits limits(config);
  EXPECT_EQ(limits.retry_after_s(), 1);
  limits.enter(5000);
  EXPECT_EQ(limits.retry_after_s(), 1) << "no rate is known yet";
  limits.on_prefill(1000, 1000000);
  EXPECT_NEAR(limits.prefill_tokens_per_s(), 1000.0, 1e-6);
  EXPECT_EQ(limits.retry_after_s(), 5);
  limits.enter(100000000);
  EXPECT_EQ(limits.retry_after_s(), 600);
}

TEST(SchedulerConfig, EachFieldHasItsBounds) {
  EXPECT_TRUE(SchedulerConfig{}.validate().ok());
  const auto message = [](auto change) {
    SchedulerConfig config;
    change(config);
    return config.validate().message();
  };
  EXPECT_EQ(message([](auto& c) { c.max_num_batched_tokens = 100; }),
            "--max-num-batched-tokens: expected >= --max-num-seqs (256), got 100");
  EXPECT_EQ(message([](auto& c) { c.enable_chunked_prefill = false; }),
            "--max-num-batched-tokens: expected >= --max-model-len (4096) without chunked prefill, "
            "got 2048");
  EXPECT_NE(message([](auto& c) { c.watermark = 1.0; }), "");
  EXPECT_NE(message([](auto& c) { c.watermark = std::numeric_limits<double>::quiet_NaN(); }), "");
  EXPECT_NE(message([](auto& c) { c.max_num_queued_reqs = 0; }), "");
  EXPECT_NE(message([](auto& c) { c.max_num_queued_tokens = 0; }), "");
  EXPECT_NE(message([](auto& c) { c.max_model_len = 0; }), "");
  EXPECT_NE(message([](auto& c) { c.max_num_seqs = 0; }), "");
  EXPECT_NE(message([](auto& c) { c.max_skip_ahead = -1; }), "");
  EXPECT_NE(message([](auto& c) { c.express_tokens = -1; }), "");
  EXPECT_NE(message([](auto& c) { c.sjf_ageing_tokens_per_s = -1; }), "");
}

}  // namespace
}  // namespace quire
