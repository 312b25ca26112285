// Beam searches in the engine: their texts are those of a naive search alone, whatever runs beside
// them and however often they are preempted, and all blocks are freed in the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "engine/beam/testing/naive_beam_search.h"
#include "engine/testing/engine_test_support.h"

namespace quire::test {
namespace {

GenerationRequest beam_request(std::vector<TokenId> prompt, int32_t width, int32_t max_tokens,
                               BeamSearchParams rule = {}) {
  GenerationRequest r = request(std::move(prompt), max_tokens);
  r.params.ignore_eos = false;
  r.num_choices = width;
  r.beam_search = rule;
  return r;
}

std::vector<NaiveBeamSearch::Text> naive(const FakeExecutor& fake, const GenerationRequest& r) {
  const NaiveBeamSearch search{.width = r.num_choices,
                               .num_prompt_tokens = static_cast<int32_t>(r.prompt_token_ids.size()),
                               .params = r.params,
                               .rule = *r.beam_search,
                               .candidates = [&](const std::vector<TokenId>& text) {
                                 std::vector<TokenId> context = r.prompt_token_ids;
                                 context.insert(context.end(), text.begin(), text.end());
                                 return fake.beam_candidates(context, -1).top;
                               }};
  return search.run();
}

void expect_naive(Rig& rig, GroupId id, const GenerationRequest& r) {
  const auto expected = naive(rig.fake(), r);
  for (size_t i = 0; i < expected.size(); ++i) {
    const Answer& answer = rig.answer(id, i);
    ASSERT_TRUE(answer.status.ok()) << answer.status.message();
    ASSERT_EQ(answer.token_ids, expected[i].token_ids) << "text " << i;
    ASSERT_EQ(answer.finish_reason,
              expected[i].stopped ? FinishReason::kStop : FinishReason::kLength);
  }
}

RigOptions beam_rig() {
  RigOptions options = small_rig();
  options.fake.vocab_size = 60;
  return options;
}

TEST(BeamRequests, GiveTheBestTextsBestFirst) {
  Rig rig(beam_rig());
  for (const int32_t width : {1, 2, 4, 8}) {
    GenerationRequest r = beam_request(tokens(9), width, 12);
    r.params.eos_token_ids = {3};
    for (TokenId& id : r.prompt_token_ids) id %= 60;
    const GroupId id = rig.submit(r).value();
    rig.run();
    expect_naive(rig, id, r);
  }
}

TEST(BeamRequests, ComputeThePromptOnce) {
  RigOptions options = beam_rig();
  options.engine.kv.enable_prefix_caching = false;
  Rig rig(options);
  rig.ask(beam_request(std::vector<TokenId>(30, 5), 4, 6));
  // The prompt, and all but the last token of each beam.
  EXPECT_EQ(rig.fake().num_tokens_run(), 30 + 4 * 5);
}

TEST(BeamRequests, CopyAtMostOneBlockLessThanThereAreBeams) {
  RigOptions options = beam_rig();
  int64_t most = 0;
  options.fake.fail_step = [&](const StepPlan& plan) {
    most = std::max(most, static_cast<int64_t>(plan.block_copies.size()));
    return Status();
  };
  Rig rig(options);
  rig.ask(beam_request(std::vector<TokenId>(9, 5), 6, 20));
  EXPECT_LE(most, 5);
  EXPECT_GT(most, 0);
}

TEST(BeamRequests, SayWhichTokensAreLikely) {
  RigOptions options = beam_rig();
  options.tokenizer = byte_tokenizer();
  options.fake.vocab_size = 257;
  Rig rig(options);
  GenerationRequest r = beam_request({5, 6, 7}, 3, 5);
  r.params.logprobs = 1;
  const GroupId id = rig.submit(r).value();
  rig.run();
  for (size_t i = 0; i < 3; ++i) {
    const Answer& answer = rig.answer(id, i);
    ASSERT_EQ(answer.logprobs.size(), answer.token_ids.size());
    for (const TokenLogprobs& token : answer.logprobs) EXPECT_EQ(token.top.size(), 1u);
    EXPECT_FALSE(answer.text.empty());
  }
}

TEST(BeamRequests, AreRefusedWhereTheyMeanNothing) {
  Rig rig(beam_rig());
  const auto refused = [&](const std::function<void(GenerationRequest&)>& change) {
    GenerationRequest r = beam_request({1, 2, 3}, 2, 4);
    change(r);
    const Status status = rig.engine().prepare(r);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_NE(refused([](auto& r) { r.num_choices = 9; }).find("--max-num-seqs"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.params.eos_token_ids.assign(40, 1); }).find("60"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.beam_search->length_penalty = NAN; }).find("length_penalty"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.structured_outputs.emplace(); }).find("structured output"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.params.min_tokens = 1; }).find("min_tokens"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.params.stop_token_ids = {1}; }).find("stop_token_ids"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.params.frequency_penalty = 1; }).find("frequency_penalty"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) {
              r.params.logit_bias = {{1, 1.0f}};
            }).find("logit_bias"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.params.bad_words = {{1}}; }).find("bad_words"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.params.max_tokens = 0; }).find("max_tokens"),
            std::string::npos);
}

TEST(BeamRequests, TooManyForTheCacheAreRefusedAtOnce) {
  RigOptions options = beam_rig();
  options.engine.num_blocks = 34;
  Rig rig(options);
  const auto id = rig.submit(beam_request({1, 2, 3}, 8, 40));
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.status().code(), StatusCode::kTooLarge);
  EXPECT_NE(id.status().message().find("KV blocks"), std::string::npos) << id.status().message();
  EXPECT_FALSE(rig.engine().has_unfinished());
}

TEST(BeamRequests, OneFailsAllFail) {
  for (const bool whole_step : {false, true}) {
    RigOptions options = beam_rig();
    int num_steps = 0;
    if (whole_step) {
      options.fake.fail_step = [&](const StepPlan&) {
        return ++num_steps == 4 ? internal_error("broken") : Status();
      };
    } else {
      options.fake.fail_request = [&](RequestId id, uint64_t step) {
        return step >= 4 && id.value == 2 ? internal_error("broken") : Status();
      };
    }
    Rig rig(options);
    const GroupId id = rig.submit(beam_request({1, 2, 3}, 4, 12)).value();
    rig.run();
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rig.answer(id, i).finish_reason, FinishReason::kError);
  }
}

TEST(BeamRequests, EndAtTheirDeadline) {
  Rig rig(beam_rig());
  GenerationRequest r = beam_request({1, 2, 3}, 4, 60);
  r.timeout_us = 5000;
  const GroupId id = rig.submit(r).value();
  rig.run();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(rig.answer(id, i).status.code(), StatusCode::kDeadlineExceeded);
}

// Searches and ordinary requests arrive at random in an engine with little room.
class BeamCrowd : public ::testing::TestWithParam<uint32_t> {
 protected:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(rng_()) % n; }

  RigOptions options() {
    RigOptions o = beam_rig();
    o.engine.num_blocks = static_cast<int32_t>(26 + below(40));
    o.engine.kv.enable_prefix_caching = below(2) == 0;
    o.engine.scheduler.max_num_batched_tokens = static_cast<int32_t>(8 + below(40));
    o.engine.scheduler.max_num_seqs = 8;
    o.engine.scheduler.reserve_full_isl = below(4) != 0;
    o.engine.scheduler.max_model_len = 64;
    o.engine.scheduler.policy = static_cast<SchedulingPolicy>(below(3));
    o.engine.scheduler.async_scheduling = below(2) == 0;
    o.fake.max_steps_in_flight = o.engine.scheduler.async_scheduling ? 2 : 1;
    if (below(3) == 0) {  // two kinds of layers
      o.fake.kv_spec.groups = {KvGroupSpec{},
                               KvGroupSpec{.kind = KvKind::kSlidingWindow, .sliding_window = 9}};
      *o.engine.num_blocks *= 2;
    }
    if (below(4) == 0) {
      o.fake.keeps_blocks_on_host = true;
      o.engine.kv_offload_bytes = int64_t{20} * 4096;
    }
    return o;
  }

  std::vector<TokenId> prompt() {
    std::vector<TokenId> ids(1 + below(20), static_cast<TokenId>(below(3)));
    if (below(2) == 0) ids.back() = static_cast<TokenId>(below(60));
    return ids;
  }

  GenerationRequest any_request() {
    const bool beams = below(2) == 0;
    GenerationRequest r = request(prompt(), static_cast<int32_t>(1 + below(24)));
    if (beams) {
      r = beam_request(prompt(), static_cast<int32_t>(1 + below(5)),
                       static_cast<int32_t>(1 + below(16)));
      if (below(2) == 0) r.beam_search->early_stopping = static_cast<EarlyStopping>(below(3));
      r.beam_search->length_penalty = static_cast<float>(below(4)) - 1;
      if (below(2) == 0) r.params.eos_token_ids = {4};
    }
    if (below(8) == 0) r.params.prompt_logprobs = 1;
    r.priority = static_cast<int32_t>(below(3));
    return r;
  }

  std::mt19937 rng_{GetParam()};
};

TEST_P(BeamCrowd, TextsAreThoseOfANaiveSearchAlone) {
  Rig rig(options());
  std::vector<std::pair<GroupId, GenerationRequest>> searches;
  int num_refused = 0;
  for (int i = 0; i < 40; ++i) {
    const GenerationRequest r = any_request();
    const Result<GroupId> id = rig.submit(r);
    num_refused += !id.ok();
    if (id.ok() && below(10) == 0) {
      for (uint32_t step = below(8); step > 0; --step) rig.engine().step();
      rig.engine().abort(*id);
    } else if (id.ok() && r.beam_search) {
      searches.emplace_back(*id, r);
    }
    for (uint32_t step = below(6); step > 0; --step) {
      rig.engine().step();
      const Status integrity = rig.engine().check_integrity();
      ASSERT_TRUE(integrity.ok()) << integrity.message();
    }
    rig.read();
  }
  rig.run();
  EXPECT_LT(num_refused, 20);
  for (const auto& [id, r] : searches) expect_naive(rig, id, r);
}

// Searches that do not fit together are preempted and resume.
TEST(BeamRequests, ComeBackAfterPreemption) {
  for (const bool caching : {false, true}) {
    RigOptions options = beam_rig();
    options.engine.num_blocks = 31;
    options.engine.scheduler.max_model_len = 64;
    options.engine.scheduler.max_num_seqs = 16;
    options.engine.kv.enable_prefix_caching = caching;
    Rig rig(options);
    const GenerationRequest first = beam_request(std::vector<TokenId>(11, 5), 4, 24);
    const GenerationRequest second = beam_request(std::vector<TokenId>(10, 6), 4, 24);
    const GenerationRequest third = beam_request(std::vector<TokenId>(9, 7), 4, 24);
    const GroupId id = rig.submit(first).value();
    const GroupId other = rig.submit(second).value();
    const GroupId last = rig.submit(third).value();
    rig.run();
    EXPECT_GT(rig.engine().stats().num_preemptions, 0u);
    expect_naive(rig, id, first);
    expect_naive(rig, other, second);
    expect_naive(rig, last, third);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, BeamCrowd, ::testing::Range(0u, 200u));

}  // namespace
}  // namespace quire::test
