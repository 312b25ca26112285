// Requests whose tokens follow a mask source, through the whole engine.
#include "engine/choices/choice_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "draft/suffix_drafter.h"
#include "engine/testing/engine_test_support.h"
#include "engine/testing/rule_masks.h"

namespace quire {
namespace {

using test::Answer;
using test::request;
using test::Rig;
using test::RuleMasksOptions;
using test::small_rig;
using test::tokens;

// Token t may be followed by tokens with the same remainder, or the next one, of a division by 7.
RuleMasksOptions remainders() {
  RuleMasksOptions options;
  options.rule = [](std::span<const TokenId> output, TokenId id) {
    const TokenId last = output.empty() ? 0 : output.back();
    return id % 7 == last % 7 || id % 7 == (last + 1) % 7;
  };
  return options;
}

std::vector<TokenId> expected(Rig& rig, const GenerationRequest& r, const RuleMasksOptions& masks) {
  return rig.fake().expected_output(
      r.prompt_token_ids, r.params,
      [&](std::span<const TokenId> output) { return test::rule_mask(masks, output); });
}

class ChoiceMasksTest : public ::testing::TestWithParam<int32_t> {
 protected:
  test::RigOptions rig_options() {
    auto options = small_rig();
    options.fake.max_steps_in_flight = GetParam();
    options.engine.scheduler.async_scheduling = GetParam() > 1;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, ChoiceMasksTest, ::testing::Values(1, 2));

TEST_P(ChoiceMasksTest, TokensKeepToTheirMasks) {
  Rig rig(rig_options());
  const RuleMasksOptions masks = remainders();
  auto masked = request(tokens(20), 25);
  masked.make_mask_source = test::make_rule_masks(masks);
  masked.num_choices = 2;
  masked.params.seed = 5;
  auto free = request(tokens(9, 3), 25);
  const auto masked_id = rig.submit(masked);
  const auto free_id = rig.submit(free);
  ASSERT_TRUE(masked_id.ok() && free_id.ok());
  rig.run();
  for (int32_t i = 0; i < 2; ++i) {
    auto choice = masked;
    choice.params.seed = choice_seed(5, i);
    const Answer& answer = rig.answer(*masked_id, static_cast<size_t>(i));
    EXPECT_EQ(answer.token_ids, expected(rig, choice, masks));
    EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  }
  EXPECT_EQ(rig.answer(*free_id).token_ids,
            rig.fake().expected_output(free.prompt_token_ids, free.params));
}

// A late mask delays only its own request, and changes no token.
TEST_P(ChoiceMasksTest, ALateMaskDelaysItsRequestAlone) {
  Rig rig(rig_options());
  RuleMasksOptions masks = remainders();
  masks.num_late_calls = 3;
  auto late = request(tokens(20), 10);
  late.make_mask_source = test::make_rule_masks(masks);
  const auto free = request(tokens(9, 3), 12);
  const auto late_id = rig.submit(late);
  const auto free_id = rig.submit(free);
  ASSERT_TRUE(late_id.ok() && free_id.ok());
  while (!rig.answer(*free_id).finish_reason) {
    rig.engine().step();
    rig.read();
  }
  EXPECT_EQ(rig.answer(*free_id).token_ids.size(), 12u);
  EXPECT_LT(rig.answer(*late_id).token_ids.size(), 6u);
  // All of its prompt but the last token was computed meanwhile.
  EXPECT_GE(rig.fake().num_tokens_run(), 19 + 9 + 11);
  rig.run();
  EXPECT_EQ(rig.answer(*late_id).token_ids, expected(rig, late, masks));
}

// Drafts behind a late mask count as wrong, and the next step reaches the same place.
TEST_P(ChoiceMasksTest, ALateMaskBehindADraftChangesNoToken) {
  for (const size_t num_in_time : {1u, 2u, 3u, 100u}) {
    auto options = rig_options();
    options.engine.drafter = std::make_shared<SuffixDrafter>(SuffixDrafter::Options{});
    options.engine.scheduler.num_speculative_tokens = 4;
    Rig rig(options);
    RuleMasksOptions masks;  // only one text is allowed, which repeats itself
    masks.rule = [](std::span<const TokenId> output, TokenId id) {
      return id == static_cast<TokenId>(output.size() % 3);
    };
    masks.num_masks_in_time = num_in_time;
    auto r = request(tokens(10), 60);
    r.make_mask_source = test::make_rule_masks(masks);
    const Answer answer = rig.ask(r);
    EXPECT_EQ(answer.token_ids, expected(rig, r, masks)) << answer.status.message();
    const EngineStats stats = rig.engine().stats();
    EXPECT_GT(stats.spec_decode_num_draft_tokens, 0u);
    EXPECT_LE(stats.spec_decode_num_accepted_tokens, (num_in_time - 1) * stats.steps);
    EXPECT_EQ(stats.spec_decode_num_accepted_tokens > 0, num_in_time > 1);
  }
}

// Records the order in which sources are told of tokens (a) and asked for masks (r).
class NotedMasks final : public TokenMaskSource {
 public:
  NotedMasks(const RuleMasksOptions& masks, std::string& notes) : masks_(masks), notes_(notes) {}
  Status accept(std::span<const TokenId> token_ids) override {
    notes_ += 'a';
    return masks_.accept(token_ids);
  }
  bool ready() override {
    notes_ += 'r';
    return masks_.ready();
  }
  Result<int32_t> count_allowed(std::span<const TokenId> drafts) override {
    return masks_.count_allowed(drafts);
  }
  Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) override {
    return masks_.fill(drafts, masks);
  }

 private:
  test::RuleMasks masks_;
  std::string& notes_;
};

// Workers can make the masks of all rows before the engine waits for one.
TEST_P(ChoiceMasksTest, MasksOfAllRowsAreBegunBeforeOneIsAskedFor) {
  Rig rig(rig_options());
  std::string notes;
  auto r = request(tokens(6), 8);
  r.make_mask_source = [&notes] { return std::make_unique<NotedMasks>(remainders(), notes); };
  r.num_choices = 4;
  const auto id = rig.submit(r);
  ASSERT_TRUE(id.ok());
  rig.run();
  EXPECT_EQ(rig.answer(*id, 3).token_ids.size(), 8u);
  EXPECT_NE(notes.find("aaaarrrr"), std::string::npos) << notes;
  EXPECT_EQ(std::count(notes.begin(), notes.end(), 'r'),
            std::count(notes.begin(), notes.end(), 'a') + 4);
}

TEST_P(ChoiceMasksTest, PreemptedRequestsGoOnUnderTheirMasks) {
  auto options = rig_options();
  options.engine.num_blocks = 34;
  Rig rig(options);
  RuleMasksOptions masks = remainders();
  masks.num_late_calls = 1;
  masks.free_from = 30;
  std::vector<std::pair<GroupId, GenerationRequest>> asked;
  for (int32_t i = 0; i < 6; ++i) {
    auto r = request(tokens(12 + i, 1 + i), 40);
    if (i % 2 == 0) r.make_mask_source = test::make_rule_masks(masks);
    const auto id = rig.submit(r);
    ASSERT_TRUE(id.ok());
    asked.emplace_back(*id, r);
  }
  rig.run();
  EXPECT_GT(rig.engine().stats().num_preemptions, 0u);
  for (const auto& [id, r] : asked) {
    const auto want = r.make_mask_source ? expected(rig, r, masks)
                                         : rig.fake().expected_output(r.prompt_token_ids, r.params);
    EXPECT_EQ(rig.answer(id).token_ids, want);
  }
}

// A source that fails ends only its own choice, with its error.
TEST_P(ChoiceMasksTest, AFailureEndsItsChoiceAlone) {
  Rig rig(rig_options());
  RuleMasksOptions fill_fails = remainders();
  fill_fails.fill_fails_at = 3;
  RuleMasksOptions accept_fails = remainders();
  accept_fails.accept_fails_at = 5;
  auto a = request(tokens(20), 10), b = a;
  a.make_mask_source = test::make_rule_masks(fill_fails);
  b.make_mask_source = test::make_rule_masks(accept_fails);
  const auto c = request(tokens(20), 10);
  const auto a_id = rig.submit(a), b_id = rig.submit(b), c_id = rig.submit(c);
  ASSERT_TRUE(a_id.ok() && b_id.ok() && c_id.ok());
  rig.run();
  EXPECT_EQ(rig.answer(*a_id).finish_reason, FinishReason::kError);
  EXPECT_NE(rig.answer(*a_id).status.message().find("grammar budget"), std::string::npos);
  EXPECT_EQ(rig.answer(*a_id).token_ids.size(), 3u);
  EXPECT_EQ(rig.answer(*b_id).finish_reason, FinishReason::kError);
  EXPECT_EQ(rig.answer(*b_id).token_ids.size(), 5u);
  EXPECT_EQ(rig.answer(*c_id).token_ids, rig.fake().expected_output(c.prompt_token_ids, c.params));
}

}  // namespace
}  // namespace quire
