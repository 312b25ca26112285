// Speculation through the whole engine: drafts that are right with some probability change when
// tokens come, but no token, text, finish reason or count.
#include "engine/choices/choice_drafts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "draft/suffix_drafter.h"
#include "engine/testing/engine_test_support.h"
#include "engine/testing/rule_masks.h"
#include "engine/testing/taught_drafter.h"

namespace quire {
namespace {

using test::Answer;
using test::request;
using test::Rig;
using test::RuleMasksOptions;
using test::small_rig;
using test::tokens;

constexpr int32_t kNumDrafts = 4;

// Proposes wrong drafts on purpose, and none for requests whose answer it was not taught.
class TestDrafter final : public test::TaughtDrafter {
 public:
  explicit TestDrafter(int32_t percent_right) : percent_right_(percent_right) {}

  using TaughtDrafter::teach;
  void teach(const GenerationRequest& r, std::vector<TokenId> output) {
    teach(r.prompt_token_ids, r.params.seed.value_or(0), std::move(output));
  }

 private:
  void guess(std::span<const TokenId> answer, size_t place, int32_t max_drafts,
             std::vector<TokenId>& drafts) override {
    for (int32_t i = 0; i < max_drafts && place < answer.size(); ++i, ++place) {
      const bool is_right = hits(percent_right_);
      drafts.push_back(is_right ? answer[place] : static_cast<TokenId>(random() % 1200));
    }
  }

  const int32_t percent_right_;
};

struct Setup {
  int32_t percent_right;
  int32_t steps_in_flight;
};

class Drafts : public ::testing::TestWithParam<Setup> {
 protected:
  test::RigOptions rig_options() {
    auto options = small_rig();
    options.engine.drafter = drafter_;
    options.engine.scheduler.num_speculative_tokens = kNumDrafts;
    options.fake.max_steps_in_flight = GetParam().steps_in_flight;
    options.engine.scheduler.async_scheduling = GetParam().steps_in_flight > 1;
    return options;
  }
  // Teaches the drafter the answers of all choices of the request, beyond every stop.
  void teach(Rig& rig, GenerationRequest r, const FakeExecutor::MaskOf& mask_of = {}) {
    const uint64_t seed = r.params.seed.value_or(0);
    r.params.max_tokens = 128 - static_cast<int32_t>(r.prompt_token_ids.size());
    r.params.ignore_eos = true;
    r.params.stop_token_ids.clear();
    for (int32_t i = 0; i < r.num_choices; ++i) {
      r.params.seed = choice_seed(seed, i);
      drafter_->teach(r, rig.fake().expected_output(r.prompt_token_ids, r.params, mask_of));
    }
  }

  std::shared_ptr<TestDrafter> drafter_ = std::make_shared<TestDrafter>(GetParam().percent_right);
};

INSTANTIATE_TEST_SUITE_P(Accuracy, Drafts,
                         ::testing::Values(Setup{0, 1}, Setup{60, 1}, Setup{100, 1}, Setup{60, 2}),
                         [](const auto& info) {
                           return fmt::format("{}_percent_{}_steps", info.param.percent_right,
                                              info.param.steps_in_flight);
                         });

void expect_same(const Answer& got, const Answer& want) {
  EXPECT_EQ(got.token_ids, want.token_ids);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.finish_reason, want.finish_reason);
  EXPECT_EQ(got.stop_reason, want.stop_reason);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i) {
    EXPECT_EQ(got.logprobs[i].token_id, want.logprobs[i].token_id);
    EXPECT_EQ(got.logprobs[i].logprob, want.logprobs[i].logprob);
  }
}

TEST_P(Drafts, OneRequestTakesFewerSteps) {
  Rig rig(rig_options());
  auto r = request(tokens(10), 41);
  r.params.logprobs = 1;
  teach(rig, r);
  const Answer answer = rig.ask(r);
  EXPECT_EQ(answer.token_ids, rig.fake().expected_output(r.prompt_token_ids, r.params));
  EXPECT_EQ(answer.logprobs.size(), 41u);
  const EngineStats stats = rig.engine().stats();
  EXPECT_EQ(stats.generation_tokens, 41u);
  uint64_t accepted = 0;
  for (const uint64_t count : stats.spec_decode_num_accepted_tokens_per_pos) accepted += count;
  EXPECT_EQ(accepted, stats.spec_decode_num_accepted_tokens);
  // Each step gives one token and the accepted drafts.
  EXPECT_EQ(stats.steps, 41u - accepted);
  if (GetParam().percent_right == 100) {
    EXPECT_EQ(stats.steps, 1u + 8u);  // 1, then 8 times 5
    EXPECT_EQ(stats.spec_decode_num_draft_tokens, accepted);
    EXPECT_EQ(stats.spec_decode_num_drafts, 8u);
  }
}

// Everything that may end a request ends it at the same token, and no token behind that is visible.
TEST_P(Drafts, RequestsEndWhereTheyEndWithout) {
  const auto tokenizer = test::byte_tokenizer();
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 24; ++i) {
    auto r = request(tokens(5 + i % 7, 1 + i), 10 + i);
    r.params.seed = static_cast<uint64_t>(i);
    r.params.logprobs = i % 3 == 0 ? std::optional<int32_t>(0) : std::nullopt;
    r.params.ignore_eos = i % 2 != 0;
    r.params.eos_token_ids = {30, 31, 32, 33, 34, 35, 36, 37};
    if (i % 4 == 0) r.params.stop_token_ids = {40, 41, 42, 43, 44, 45, 46, 47};
    if (i % 3 == 1) r.params.stop = {"a", "b", "7"};
    if (i % 5 == 0) r.params.min_tokens = 6;
    if (i % 6 == 0) r.num_choices = 2;
    requests.push_back(r);
  }
  std::vector<std::vector<Answer>> answers[2];
  uint64_t generated[2] = {};
  for (const bool drafts : {false, true}) {
    auto options = rig_options();
    options.tokenizer = tokenizer;
    options.fake.vocab_size = 257;
    if (!drafts) options.engine.drafter = nullptr;
    Rig rig(options);
    std::vector<GroupId> ids;
    for (const GenerationRequest& r : requests) {
      if (drafts) teach(rig, r);
      const auto id = rig.submit(r);
      ASSERT_TRUE(id.ok()) << id.status().message();
      ids.push_back(*id);
    }
    rig.run();
    for (const GroupId id : ids) answers[drafts].push_back(rig.client(id).answers);
    generated[drafts] = rig.engine().stats().generation_tokens;
  }
  EXPECT_EQ(generated[1], generated[0]);
  int32_t num_stopped = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    for (size_t choice = 0; choice < answers[0][i].size(); ++choice) {
      expect_same(answers[1][i][choice], answers[0][i][choice]);
      num_stopped += answers[0][i][choice].finish_reason == FinishReason::kStop;
    }
  }
  EXPECT_GT(num_stopped, 8);
}

// With few blocks, small budgets, windows and prefix hits, drafts are dropped if there is no room.
TEST_P(Drafts, CrowdsAndPreemptionsGiveTheSame) {
  for (const int32_t budget : {8, 64}) {
    auto options = rig_options();
    options.engine.num_blocks = 40;
    options.engine.scheduler.max_num_batched_tokens = budget;
    options.fake.kv_spec.groups.push_back(
        {.kind = KvKind::kSlidingWindow, .sliding_window = 6, .layers = {}});
    options.engine.num_blocks = 80;
    Rig rig(options);
    std::vector<std::pair<GroupId, GenerationRequest>> asked;
    for (int32_t i = 0; i < 12; ++i) {
      auto r = request(tokens(30 + i % 3, 1 + i % 2), 40);
      r.params.seed = static_cast<uint64_t>(i);
      teach(rig, r);
      const auto id = rig.submit(r);
      ASSERT_TRUE(id.ok());
      asked.emplace_back(*id, r);
    }
    rig.run();
    EXPECT_GT(rig.engine().stats().num_preemptions, 0u);
    EXPECT_GT(rig.engine().stats().prefix_cache_hits, 0u);
    for (const auto& [id, r] : asked) {
      EXPECT_EQ(rig.answer(id).token_ids, rig.fake().expected_output(r.prompt_token_ids, r.params));
    }
  }
}

// Drafts are cut at the first token that a mask forbids, and rows behind drafts have their masks.
TEST_P(Drafts, KeepToTokenMasks) {
  Rig rig(rig_options());
  RuleMasksOptions masks;
  masks.num_late_calls = 1;
  masks.rule = [](std::span<const TokenId> output, TokenId id) {
    return id % 5 == static_cast<TokenId>(output.size()) % 5;
  };
  const auto mask_of = [&](std::span<const TokenId> output) {
    return test::rule_mask(masks, output);
  };
  auto r = request(tokens(10), 40);
  r.make_mask_source = test::make_rule_masks(masks);
  teach(rig, r, mask_of);
  const Answer answer = rig.ask(r);
  EXPECT_EQ(answer.token_ids, rig.fake().expected_output(r.prompt_token_ids, r.params, mask_of));
  const EngineStats stats = rig.engine().stats();
  EXPECT_GE(stats.spec_decode_num_accepted_tokens * 100,
            stats.spec_decode_num_draft_tokens * static_cast<uint64_t>(GetParam().percent_right));
}

// The client's prediction is drafted where the answer begins to follow it, and counted separately.
TEST(Predictions, AnswersThatFollowThemTakeFewerSteps) {
  auto options = small_rig();
  options.engine.drafter = std::make_shared<SuffixDrafter>(SuffixDrafter::Options{});
  options.engine.scheduler.num_speculative_tokens = kNumDrafts;
  Rig rig(options);
  auto r = request(tokens(10), 40);
  const std::vector<TokenId> want = rig.fake().expected_output(r.prompt_token_ids, r.params);
  r.params.prediction_token_ids = want;
  const auto id = rig.submit(r);
  ASSERT_TRUE(id.ok());
  rig.run();
  EXPECT_EQ(rig.answer(*id).token_ids, want);
  const DraftCounts& drafts = rig.answer(*id).drafts;
  EXPECT_GT(drafts.num_prediction_accepted, 25);
  EXPECT_LE(drafts.num_prediction_accepted, drafts.num_accepted);
  EXPECT_LT(rig.engine().stats().steps, 16u);
}

// Earlier answers of the engine make later ones faster, but only those with the same cache salt.
TEST(SharedDrafts, ChangeNoAnswerAndKeepSaltsApart) {
  auto options = small_rig();
  options.engine.drafter = std::make_shared<SuffixDrafter>(SuffixDrafter::Options{});
  options.engine.scheduler.num_speculative_tokens = kNumDrafts;
  Rig rig(options);
  uint64_t num_steps = 0;
  const auto steps_of = [&](const std::string& salt, float temperature) {
    auto r = request(tokens(10), 40);
    r.params.seed = 3;
    r.params.temperature = temperature;
    r.cache_keys.salt = salt;
    EXPECT_EQ(rig.ask(r).token_ids, rig.fake().expected_output(r.prompt_token_ids, r.params));
    const uint64_t before = std::exchange(num_steps, rig.engine().stats().steps);
    return num_steps - before;
  };
  for (const float temperature : {0.0f, 1.0f}) {
    SCOPED_TRACE(temperature);
    EXPECT_GT(steps_of("a", temperature), 30u);
    EXPECT_LT(steps_of("a", temperature), 16u);
    EXPECT_GT(steps_of("b", temperature), 30u);
  }
}

// Cache events, and their order, do not depend on drafts: no block with a token that was not
// accepted is reported.
TEST_P(Drafts, CachedPrefixesAreToldAsWithout) {
  std::vector<std::pair<BlockHash, std::vector<TokenId>>> stored[2];
  for (const bool drafts : {false, true}) {
    auto options = rig_options();
    if (!drafts) options.engine.drafter = nullptr;
    options.engine.kv.enable_events = true;
    options.engine.kv.hash_seed = 5;
    options.engine.on_kv_events = [&, drafts](const std::vector<KvEvent>& events) {
      for (const KvEvent& event : events) {
        if (const auto* block = std::get_if<BlockStored>(&event))
          stored[drafts].emplace_back(block->hash, block->token_ids);
      }
    };
    Rig rig(options);
    for (int32_t i = 0; i < 3; ++i) {
      auto r = request(tokens(10, 1 + i), 50);
      teach(rig, r);
      EXPECT_EQ(rig.ask(r).token_ids, rig.fake().expected_output(r.prompt_token_ids, r.params));
    }
  }
  EXPECT_GT(stored[0].size(), 20u);
  EXPECT_EQ(stored[1], stored[0]);
}

// Forces tokens 7 and 8, and allows any.
class ForcingSource final : public TokenMaskSource {
 public:
  Status accept(std::span<const TokenId>) override { return {}; }
  std::span<const TokenId> forced() const override { return forced_; }
  Result<int32_t> count_allowed(std::span<const TokenId> drafts) override {
    return static_cast<int32_t>(drafts.size());
  }
  Result<bool> fill(std::span<const TokenId>, std::span<uint32_t>) override { return false; }

 private:
  const std::vector<TokenId> forced_ = {7, 8};
};

// Each query gets its own answer, even one with forced tokens that has room for none of them.
TEST(ForcedDrafts, AnswerTheirOwnQueries) {
  SchedulerConfig config;
  config.max_model_len = 64;
  KvManager kv({.block_size = 4, .groups = {KvGroupSpec{}}, .block_bytes = 64}, 17, {});
  Scheduler scheduler(config, kv);
  ChoiceMasks masks(scheduler, 1200);
  Choice forcing;
  forcing.request_id = RequestId(1);
  forcing.mask_source = std::make_unique<ForcingSource>();
  masks.add(forcing);
  const auto request_of = [](uint64_t id) {
    Request r;
    r.id = RequestId(id);
    r.token_ids = {static_cast<TokenId>(id)};
    r.num_prompt_tokens = 1;
    r.params = std::make_shared<SamplingParams>();
    return r;
  };
  const Request first = request_of(1), second = request_of(2);
  const auto drafter = std::make_shared<TestDrafter>(100);
  drafter->TaughtDrafter::teach({2}, 0, {30, 31, 32});
  ChoiceDrafts drafts(drafter, masks, 1200);
  for (const int32_t room : {0, 1, 2, 5}) {
    DraftQuery queries[] = {{.request = &first, .max_drafts = room},
                            {.request = &second, .max_drafts = 2}};
    drafts.propose(queries);
    EXPECT_EQ(std::ssize(queries[0].token_ids), std::min(room, 2)) << room;
    EXPECT_EQ(queries[0].request, &first);
    ASSERT_EQ(queries[1].token_ids.size(), 2u) << room;
    EXPECT_EQ(queries[1].token_ids[0], 30);
    EXPECT_EQ(queries[1].request, &second);
  }
  masks.remove(forcing);
}

// If step times are known, they decide: drafts that cannot pay are never verified, and only the
// number of steps differs.
TEST(WeighedDrafts, GiveTheSameWithFewerDrafts) {
  std::vector<std::vector<TokenId>> answers;
  std::vector<uint64_t> num_drafts;
  for (const double slope : {0.0, 20.0, 100.0}) {
    auto options = small_rig();
    options.engine.drafter = std::make_shared<SuffixDrafter>(SuffixDrafter::Options{});
    options.engine.scheduler.num_speculative_tokens = kNumDrafts;
    auto times = RowTimes::create({{1, 100.0}, {2, 100.0 + slope}, {64, 100.0 + 63 * slope}});
    ASSERT_TRUE(times.ok());
    options.engine.scheduler.draft_planner.row_times = *times;
    options.fake.next_token = [](std::span<const TokenId> context) {
      return std::optional<TokenId>(static_cast<TokenId>(context.size() * context.size() % 11));
    };
    Rig rig(options);
    answers.push_back(rig.ask(request(tokens(10), 100)).token_ids);
    num_drafts.push_back(rig.engine().stats().spec_decode_num_draft_tokens);
  }
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_EQ(answers[2], answers[0]);
  EXPECT_GT(num_drafts[0], num_drafts[2]);
  EXPECT_GT(num_drafts[1], 0u);
  EXPECT_EQ(num_drafts[2], 0u);
}

// With so few distinct tokens the drafter finds matches everywhere, none of which helps. Once the
// planner has learned that, it leaves one probe every 32 steps.
TEST(WeighedDrafts, RandomTextGetsNoneAfter64Steps) {
  constexpr int32_t kLength = 700;
  auto options = small_rig();
  options.fake.vocab_size = 40;
  options.engine.drafter = std::make_shared<SuffixDrafter>(SuffixDrafter::Options{});
  options.engine.scheduler.num_speculative_tokens = 24;
  options.engine.scheduler.max_model_len = kLength + 100;
  options.engine.num_blocks = kLength;
  auto times = RowTimes::create({{1, 100.0}, {64, 100.0 + 63 * 8.0}});
  ASSERT_TRUE(times.ok());
  options.engine.scheduler.draft_planner.row_times = *times;
  Rig rig(options);
  auto r = request(tokens(30), kLength);
  for (TokenId& id : r.prompt_token_ids) id %= 40;
  const auto id = rig.submit(r);
  ASSERT_TRUE(id.ok());
  for (int i = 0; i < 64; ++i) {
    rig.engine().step();
    rig.read();
  }
  const uint64_t num_learning = rig.engine().stats().spec_decode_num_draft_tokens;
  EXPECT_GT(num_learning, 0u);
  rig.run();
  EXPECT_EQ(rig.answer(*id).token_ids, rig.fake().expected_output(r.prompt_token_ids, r.params));
  EXPECT_LE(rig.engine().stats().spec_decode_num_draft_tokens - num_learning, kLength / 32);
}

}  // namespace
}  // namespace quire
