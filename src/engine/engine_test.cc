#include "engine/engine.h"

#include <gtest/gtest.h>

#include "engine/testing/engine_test_support.h"
#include "roofline/model/cost_model.h"
#include "roofline/testing/test_models.h"

namespace quire {
namespace {

using test::Answer;
using test::request;
using test::Rig;
using test::small_rig;
using test::tokens;

TEST(Engine, OneRequestGivesWhatTheModelSays) {
  Rig rig;
  auto r = request(tokens(10), 20);
  const auto expected = rig.fake().expected_output(r.prompt_token_ids, r.params);
  const Answer answer = rig.ask(r);
  EXPECT_EQ(answer.token_ids, expected);
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  EXPECT_EQ(answer.num_cached_tokens, 0);
  EXPECT_EQ(answer.num_deltas, 20);
}

// A cost model that is set late bounds the steps from then on, both in statistics and in
// scheduling.
TEST(Engine, ACostModelMayComeWhileRequestsRun) {
  auto options = small_rig();
  options.engine.scheduler.step_time = {.max_step_us = 100};
  Rig rig(options);
  ASSERT_TRUE(rig.submit(request(tokens(8), 100)).ok());
  rig.engine().step();
  ASSERT_TRUE(rig.submit(request(tokens(60, 100), 4)).ok());
  rig.engine().step();
  EXPECT_EQ(rig.engine().recent_steps().back().num_tokens, 61);
  EXPECT_EQ(rig.engine().recent_steps().back().cost.bound_us, 0);
  rig.engine().set_cost_model(std::make_shared<const CostModel>(
      CostModel::create(test::model_of(test::kGemma2_9B), find_hardware("cpu-avx512").value(), {},
                        {.max_memoised_tokens = 128})
          .value()));
  ASSERT_TRUE(rig.submit(request(tokens(60, 200), 4)).ok());
  rig.engine().step();
  EXPECT_EQ(rig.engine().recent_steps().back().num_tokens, 2 + 16);  // the least chunk
  EXPECT_GT(rig.engine().recent_steps().back().cost.bound_us, 0);
  rig.run();
}

// L4: alone == among others == chunked == after a prefix hit == after preemptions.
TEST(Engine, AnswersDoNotDependOnCompany) {
  std::vector<std::vector<TokenId>> outputs;
  const auto wanted = request(tokens(50), 30);
  for (const int32_t budget : {5, 64}) {
    for (const int32_t crowd : {0, 20}) {
      for (const bool warm : {false, true}) {
        auto options = small_rig();
        options.engine.num_blocks = crowd > 0 ? 60 : 65;  // with others there must be preemption
        options.engine.scheduler.max_num_batched_tokens = budget;
        Rig rig(options);
        if (warm) rig.ask(wanted);
        for (int32_t i = 0; i < crowd; ++i) {
          ASSERT_TRUE(rig.submit(request(tokens(5 + i, 3 + i % 4), 60)).ok());
        }
        const auto id = rig.submit(wanted);
        ASSERT_TRUE(id.ok());
        rig.run();
        if (crowd > 0) {
          EXPECT_GT(rig.engine().stats().num_preemptions, 0u);
          EXPECT_EQ(rig.engine().stats().request_num_preemptions.sum,
                    static_cast<double>(rig.engine().stats().num_preemptions));
        }
        if (warm && crowd == 0) {
          EXPECT_GT(rig.answer(*id).num_cached_tokens, 40);
        }
        EXPECT_EQ(rig.answer(*id).finish_reason, FinishReason::kLength);
        outputs.push_back(rig.answer(*id).token_ids);
      }
    }
  }
  for (const auto& output : outputs) EXPECT_EQ(output, outputs[0]);
}

TEST(Engine, ChoicesThatWaitForTheirPromptAreDeferred) {
  auto options = small_rig();
  options.engine.scheduler.max_num_batched_tokens = 8;
  Rig rig(options);
  auto r = request(tokens(20), 4);
  r.num_choices = 3;
  r.params.temperature = 1.0f;
  ASSERT_TRUE(rig.submit(r).ok());
  ASSERT_TRUE(rig.engine().step());  // the first 8 tokens of the prompt
  const EngineStats stats = rig.engine().stats();
  EXPECT_EQ(stats.num_requests_running, 1);
  EXPECT_EQ(stats.num_requests_waiting_deferred, 2);
  EXPECT_EQ(stats.num_requests_waiting_capacity, 0);
  rig.run();
  EXPECT_EQ(rig.engine().stats().num_requests_waiting_deferred, 0);
}

TEST(Engine, ChoicesShareThePromptAndHaveTheirOwnSeeds) {
  Rig rig;
  auto r = request(tokens(40), 12);
  r.num_choices = 4;
  r.params.seed = 77;
  const auto id = rig.submit(r);
  ASSERT_TRUE(id.ok());
  rig.run();
  std::set<std::vector<TokenId>> distinct;
  for (int32_t i = 0; i < 4; ++i) {
    auto params = r.params;
    params.seed = choice_seed(77, i);
    const Answer& answer = rig.answer(*id, static_cast<size_t>(i));
    EXPECT_EQ(answer.token_ids, rig.fake().expected_output(r.prompt_token_ids, params)) << i;
    EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
    distinct.insert(answer.token_ids);
  }
  EXPECT_EQ(distinct.size(), 4u);
  EXPECT_EQ(choice_seed(77, 0), 77u);
  // The prompt ran once, not four times.
  EXPECT_LT(rig.fake().num_tokens_run(), 40 + 4 * 12 + 4);
}

TEST(Engine, StopTokensAndEos) {
  auto options = small_rig();
  options.fake.next_token = [](std::span<const TokenId> context) -> std::optional<TokenId> {
    return static_cast<TokenId>(context.size());  // tokens count up from the prompt's length
  };
  Rig rig(options);
  auto r = request(tokens(10), 50);
  r.params.stop_token_ids = {14};
  Answer answer = rig.ask(r);
  EXPECT_EQ(answer.token_ids, (std::vector<TokenId>{10, 11, 12, 13, 14}));
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
  EXPECT_EQ(std::get<TokenId>(answer.stop_reason), 14);

  r.params.ignore_eos = false;
  r.params.eos_token_ids = {12};
  answer = rig.ask(r);
  EXPECT_EQ(answer.token_ids, (std::vector<TokenId>{10, 11, 12}));
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(answer.stop_reason));

  r.params.max_tokens = 3;  // EOS comes before length
  EXPECT_EQ(rig.ask(r).finish_reason, FinishReason::kStop);
  r.params.max_tokens = 2;
  EXPECT_EQ(rig.ask(r).finish_reason, FinishReason::kLength);
}

TEST(Engine, ContextEndsTheOutput) {
  Rig rig;  // max_model_len 128
  const Answer answer = rig.ask(request(tokens(120), 50));
  EXPECT_EQ(answer.token_ids.size(), 8u);
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
}

TEST(Engine, MaxTokensZeroComputesThePromptOnly) {
  Rig rig;
  auto r = request(tokens(10), 0);
  r.params.prompt_logprobs = 1;
  const Answer answer = rig.ask(r);
  EXPECT_TRUE(answer.token_ids.empty());
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  EXPECT_EQ(answer.prompt_logprobs.size(), 9u);
  EXPECT_EQ(rig.engine().stats().generation_tokens, 0u);
}

TEST(Engine, LogprobsComeWithTheirTokens) {
  for (const int32_t budget : {3, 64}) {
    auto options = small_rig();
    options.engine.scheduler.max_num_batched_tokens = budget;
    Rig rig(options);
    auto r = request(tokens(23), 5);
    r.params.logprobs = 2;
    r.params.prompt_logprobs = 1;
    const Answer answer = rig.ask(r);
    ASSERT_EQ(answer.logprobs.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(answer.logprobs[i].token_id, answer.token_ids[i]);
      EXPECT_EQ(answer.logprobs[i].top.size(), 2u);
    }
    ASSERT_EQ(answer.prompt_logprobs.size(), 22u);
    for (size_t i = 0; i < 22; ++i) {
      EXPECT_EQ(answer.prompt_logprobs[i].token_id, r.prompt_token_ids[i + 1]);
    }
  }
}

TEST(Engine, AbortAtEveryStepFreesEverything) {
  for (int abort_after = 0; abort_after < 40; ++abort_after) {
    SCOPED_TRACE(abort_after);
    auto options = small_rig();
    options.engine.scheduler.max_num_batched_tokens = 9;
    Rig rig(options);
    auto r = request(tokens(30), 20);
    r.num_choices = 3;
    const auto id = rig.submit(r);
    const auto other = rig.submit(request(tokens(20, 5), 10));
    ASSERT_TRUE(id.ok() && other.ok());
    for (int i = 0; i < abort_after; ++i) rig.engine().step();
    rig.engine().abort(*id);
    rig.engine().abort(*id);  // twice does no harm
    rig.read();
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(rig.answer(*id, i).finish_reason.has_value()) << "choice " << i;
    }
    rig.run();
    EXPECT_EQ(rig.answer(*other).token_ids,
              rig.fake().expected_output(tokens(20, 5), request({}, 10).params));
  }
}

TEST(Engine, DeadlineEndsARequestWhereverItIs) {
  auto options = small_rig();
  options.engine.scheduler.max_num_seqs = 1;
  Rig rig(options);
  auto running = request(tokens(10), 100);
  running.timeout_us = 20'500;  // 1 ms per step
  auto waiting = request(tokens(10, 9), 5);
  waiting.timeout_us = 10'500;
  const auto a = rig.submit(running);
  const auto b = rig.submit(waiting);
  const auto c = rig.submit(request(tokens(10, 30), 3));
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  rig.run();
  EXPECT_EQ(rig.answer(*a).finish_reason, FinishReason::kError);
  EXPECT_EQ(rig.answer(*a).status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(rig.answer(*a).token_ids.size(), 21u);
  EXPECT_EQ(rig.answer(*b).status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(rig.answer(*b).token_ids.empty());
  EXPECT_EQ(rig.answer(*c).finish_reason, FinishReason::kLength);
  EXPECT_EQ(rig.engine().stats().deadlines_exceeded, 2u);
}

TEST(Engine, AFailedStepFailsItsRequestsOnly) {
  auto options = small_rig();
  options.engine.scheduler.max_num_seqs = 2;
  options.fake.fail_step = [n = 0](const StepPlan&) mutable -> Status {
    return ++n == 4 ? internal_error("device lost") : Status();
  };
  Rig rig(options);
  const auto a = rig.submit(request(tokens(10), 20));
  const auto b = rig.submit(request(tokens(12, 3), 20));
  const auto c = rig.submit(request(tokens(9, 5), 20));  // waits for a place
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  rig.run();
  for (const auto id : {*a, *b}) {
    EXPECT_EQ(rig.answer(id).finish_reason, FinishReason::kError);
    EXPECT_EQ(rig.answer(id).status.code(), StatusCode::kInternal);
    EXPECT_EQ(rig.answer(id).token_ids.size(), 3u);
  }
  EXPECT_EQ(rig.answer(*c).token_ids,
            rig.fake().expected_output(tokens(9, 5), request({}, 20).params));
  // The failed step left nothing in the cache that a later request could use.
  EXPECT_EQ(rig.ask(request(tokens(10), 20)).token_ids,
            rig.fake().expected_output(tokens(10), request({}, 20).params));
  EXPECT_EQ(rig.engine().stats().steps_failed, 1u);
}

TEST(Engine, AFailedPrefillIsNotCached) {
  auto options = small_rig();
  options.fake.fail_step = [n = 0](const StepPlan&) mutable -> Status {
    return ++n == 1 ? internal_error("device lost") : Status();
  };
  Rig rig(options);
  EXPECT_EQ(rig.ask(request(tokens(40), 5)).finish_reason, FinishReason::kError);
  const Answer again = rig.ask(request(tokens(40), 5));
  EXPECT_EQ(again.finish_reason, FinishReason::kLength);
  EXPECT_EQ(again.num_cached_tokens, 0);
}

TEST(Engine, AThrowingExecutorFailsTheStep) {
  auto options = small_rig();
  options.fake.fail_step = [n = 0](const StepPlan&) mutable -> Status {
    if (++n == 2) throw std::runtime_error("surprise");
    return {};
  };
  Rig rig(options);
  const Answer answer = rig.ask(request(tokens(10), 20));
  EXPECT_EQ(answer.finish_reason, FinishReason::kError);
  EXPECT_NE(answer.status.message().find("surprise"), std::string::npos);
  EXPECT_EQ(rig.ask(request(tokens(10), 20)).finish_reason, FinishReason::kLength);
}

TEST(Engine, AFailedRequestLeavesTheOthersAlone) {
  auto options = small_rig();
  options.fake.fail_request = [](RequestId id, uint64_t) -> Status {
    return id == RequestId(2) ? internal_error("logits: NaN") : Status();
  };
  Rig rig(options);
  const auto a = rig.submit(request(tokens(10), 8));
  const auto b = rig.submit(request(tokens(10, 3), 8));
  ASSERT_TRUE(a.ok() && b.ok());
  rig.run();
  EXPECT_EQ(rig.answer(*a).finish_reason, FinishReason::kLength);
  EXPECT_EQ(rig.answer(*b).finish_reason, FinishReason::kError);
  EXPECT_NE(rig.answer(*b).status.message().find("NaN"), std::string::npos);
  EXPECT_EQ(rig.engine().stats().corrupted_requests, 1u);
}

TEST(Engine, ASlowReaderIsAbortedNotWaitedFor) {
  for (const int32_t n : {1, 3}) {
    auto options = small_rig();
    options.engine.stream = {.max_unread_deltas = 4, .max_unread_bytes = 3000};
    Rig rig(options);
    auto r = request(tokens(10), 100);
    r.num_choices = n;
    const auto id = rig.submit(r);
    ASSERT_TRUE(id.ok());
    while (rig.engine().has_unfinished()) rig.engine().step();  // nobody reads
    EXPECT_EQ(rig.engine().stats().streams_overflowed, 1u);
    rig.read();
    for (int32_t i = 0; i < n; ++i) {
      const Answer& answer = rig.answer(*id, static_cast<size_t>(i));
      EXPECT_EQ(answer.finish_reason, FinishReason::kAbort);
      EXPECT_EQ(answer.status.code(), StatusCode::kResourceExhausted);
    }
    EXPECT_EQ(rig.ask(request(tokens(10), 5)).finish_reason, FinishReason::kLength);
  }
}

TEST(Engine, FullQueueRefusesAndForksGoWholeOrNotAtAll) {
  auto options = small_rig();
  options.engine.scheduler.max_num_queued_reqs = 4;
  Rig rig(options);
  auto r = request(tokens(10), 5);
  r.num_choices = 5;
  EXPECT_EQ(rig.submit(r).status().code(), StatusCode::kTooLarge);
  ASSERT_TRUE(rig.submit(request(tokens(10), 5)).ok());
  ASSERT_TRUE(rig.submit(request(tokens(10), 5)).ok());
  r.num_choices = 3;
  EXPECT_EQ(rig.submit(r).status().code(), StatusCode::kResourceExhausted);
  r.num_choices = 2;
  ASSERT_TRUE(rig.submit(r).ok());
  EXPECT_EQ(rig.engine().queue_state().num_requests, 4);
  rig.run();
  EXPECT_EQ(rig.engine().stats().request_success_length, 4u);
}

TEST(Engine, TenRequestsOfTenTokensGiveExactTotals) {
  auto options = small_rig();
  options.engine.scheduler.max_num_seqs = 4;
  Rig rig(options);
  for (int32_t i = 0; i < 10; ++i) ASSERT_TRUE(rig.submit(request(tokens(10, 1 + i), 10)).ok());
  rig.run();
  const EngineStats s = rig.engine().stats();
  EXPECT_EQ(s.prompt_tokens, 100u);
  EXPECT_EQ(s.prompt_tokens_local_compute + s.prompt_tokens_local_cache_hit, 100u);
  EXPECT_EQ(s.generation_tokens, 100u);
  EXPECT_EQ(s.request_success_length, 10u);
  EXPECT_EQ(s.request_success_stop + s.request_success_abort + s.request_success_error, 0u);
  EXPECT_EQ(s.time_to_first_token_seconds.count, 10u);
  EXPECT_EQ(s.inter_token_latency_seconds.count, 90u);
  EXPECT_NEAR(s.inter_token_latency_seconds.sum, 0.090,
              1e-9);  // 1 ms steps, none waits once it runs
  for (const Histogram* h :
       {&s.e2e_request_latency_seconds, &s.request_queue_time_seconds,
        &s.request_prefill_time_seconds, &s.request_decode_time_seconds,
        &s.request_inference_time_seconds, &s.request_time_per_output_token_seconds,
        &s.request_params_n, &s.request_params_max_tokens, &s.request_prompt_tokens,
        &s.request_prefill_kv_computed_tokens}) {
    EXPECT_EQ(h->count, 10u);
  }
  EXPECT_EQ(s.request_generation_tokens.sum, 100.0);
  EXPECT_EQ(s.request_max_num_generation_tokens.sum, 100.0);
  EXPECT_EQ(s.request_params_max_tokens.sum, 100.0);
  EXPECT_EQ(s.request_prompt_tokens.sum, 100.0);
  EXPECT_EQ(s.iteration_tokens.sum, 200.0);
  EXPECT_NEAR(s.request_decode_time_seconds.sum, 0.090, 1e-9);
  EXPECT_NEAR(s.request_prefill_time_seconds.sum, 0.010, 1e-9);
  EXPECT_NEAR(s.request_inference_time_seconds.sum, 0.100, 1e-9);
  EXPECT_NEAR(s.e2e_request_latency_seconds.sum,
              s.request_queue_time_seconds.sum + s.request_inference_time_seconds.sum, 1e-9);
  EXPECT_EQ(s.num_requests_running, 0);
  EXPECT_EQ(s.num_requests_waiting, 0);
  EXPECT_EQ(s.kv_cache_usage, 0.0);
  EXPECT_NEAR(*s.recent_inter_token_latency.p50, 0.001, 1e-9);
  EXPECT_EQ(rig.engine().recent_steps().size(), s.steps);
}

TEST(Engine, ManyChoicesCountAsOneClientRequest) {
  Rig rig;
  auto r = request(tokens(10), 10);
  r.num_choices = 3;
  rig.ask(r);
  const EngineStats s = rig.engine().stats();
  EXPECT_EQ(s.request_success_length, 3u);
  EXPECT_EQ(s.request_params_n.count, 1u);
  EXPECT_EQ(s.request_params_n.sum, 3.0);
  EXPECT_EQ(s.request_max_num_generation_tokens.count, 1u);
  EXPECT_EQ(s.generation_tokens, 30u);
}

TEST(Engine, GridAndProbeShowTheCache) {
  auto options = small_rig();
  Rig rig(options);
  auto r = request(tokens(20), 30);
  r.external_id = "cmpl-1";
  const auto id = rig.submit(r);
  ASSERT_TRUE(id.ok());
  for (int i = 0; i < 3; ++i) rig.engine().step();
  const KvGridSnapshot grid = rig.engine().kv_grid();
  ASSERT_EQ(grid.blocks.size(), 65u);
  EXPECT_EQ(grid.block_size, 4);
  EXPECT_EQ(grid.blocks[0].state, KvCellState::kNull);
  ASSERT_EQ(grid.owners, std::vector<std::string>{"cmpl-1"});
  int owned = 0;
  for (const KvGridCell& cell : grid.blocks) owned += cell.owner == 0 ? 1 : 0;
  EXPECT_EQ(owned, 6);  // 22 tokens with KV, 4 to a block
  EXPECT_EQ(rig.engine().stats().kv_blocks_in_use, 6);
  EXPECT_FALSE(rig.engine().reset_prefix_cache().ok());
  rig.run();
  const PrefixProbe probe = rig.engine().probe_prefix(r.prompt_token_ids, {});
  EXPECT_EQ(probe.num_cached_blocks, 5);
  EXPECT_EQ(probe.num_cached_tokens, 20);
  CacheKeys other;
  other.salt = "tenant";
  EXPECT_EQ(rig.engine().probe_prefix(r.prompt_token_ids, other).num_cached_blocks, 0);
  EXPECT_TRUE(rig.engine().reset_prefix_cache().ok());
  EXPECT_EQ(rig.engine().probe_prefix(r.prompt_token_ids, {}).num_cached_blocks, 0);
}

TEST(Engine, WholePromptHitComputesOneToken) {
  Rig rig;
  const auto r = request(tokens(40), 4);
  rig.ask(r);
  const int64_t before = rig.fake().num_tokens_run();
  const Answer again = rig.ask(r);
  EXPECT_EQ(again.num_cached_tokens, 39);
  EXPECT_EQ(rig.fake().num_tokens_run() - before, 1 + 3);
}

TEST(Engine, RefusesWhatCanNeverRun) {
  Rig rig;
  const auto refused = [&](GenerationRequest r) {
    return rig.submit(std::move(r)).status().code();
  };
  EXPECT_EQ(refused(request({}, 5)), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(request(tokens(128), 5)), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(request({1, 1000}, 5)), StatusCode::kInvalidArgument);
  auto r = request(tokens(5), 5);
  r.params.stop = {"x"};
  EXPECT_EQ(refused(r), StatusCode::kInvalidArgument) << "no tokenizer, no stop strings";
  r = request(tokens(5), 5);
  r.params.top_p = 0;
  EXPECT_EQ(refused(r), StatusCode::kInvalidArgument);
}

TEST(Engine, GreedyChoicesAreComputedOnce) {
  Rig rig;
  GenerationRequest r = request(tokens(9), 12);
  r.params.temperature = 0;
  r.params.logprobs = 1;
  r.params.prompt_logprobs = 1;
  const Answer one = rig.ask(r);
  const int64_t num_tokens = rig.fake().num_tokens_run();
  r.num_choices = 4;
  const GroupId id = rig.submit(r).value();
  rig.run();
  EXPECT_EQ(rig.fake().num_tokens_run(), 2 * num_tokens);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rig.answer(id, i).token_ids, one.token_ids);
    EXPECT_EQ(rig.answer(id, i).logprobs.size(), one.logprobs.size());
    EXPECT_EQ(rig.answer(id, i).finish_reason, one.finish_reason);
    EXPECT_EQ(rig.answer(id, i).prompt_logprobs.size(), i == 0 ? one.prompt_logprobs.size() : 0);
  }
  EXPECT_EQ(rig.engine().stats().request_success_length, 5u);
  const GroupId left = rig.submit(r).value();
  rig.engine().step();
  rig.engine().abort(left);
  rig.read();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rig.answer(left, i).finish_reason, FinishReason::kAbort);
}

}  // namespace
}  // namespace quire
