#include "engine/structured/budgeted_reasoning.h"

#include <gtest/gtest.h>

#include "core/token_masks.h"
#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::Answer;
using test::Rig;
using test::tokens;

constexpr TokenId kThink = 256, kEndThink = 257;

ReasoningBudget budget(int32_t max_tokens, bool begins_inside) {
  return {.max_tokens = max_tokens,
          .begins_inside = begins_inside,
          .begins = {"<think>"},
          .ends = {"</think>"},
          .forced_token_ids = {kEndThink, '\n'}};
}

class BudgetedReasoningTest : public ::testing::Test {
 protected:
  BudgetedReasoning masks(const ReasoningBudget& budget) {
    return BudgetedReasoning(std::make_shared<const ReasoningBudget>(budget), *tokenizer_, nullptr);
  }
  // Returns the tokens that may follow `drafts`; empty: all.
  std::vector<TokenId> allowed(BudgetedReasoning& source, std::vector<TokenId> drafts = {}) {
    const auto words = static_cast<size_t>(words_per_mask(tokenizer_->vocab_size()));
    std::vector<uint32_t> rows((drafts.size() + 1) * words);
    const Result<bool> is_masked = source.fill(drafts, rows);
    EXPECT_TRUE(is_masked.ok());
    std::vector<TokenId> out;
    const std::span<const uint32_t> last = std::span(rows).last(words);
    for (TokenId id = 0; *is_masked && id < tokenizer_->vocab_size(); ++id) {
      if (allows(last, id)) out.push_back(id);
    }
    const bool has_all = out.size() == static_cast<size_t>(tokenizer_->vocab_size());
    return has_all ? std::vector<TokenId>() : out;
  }

  const std::shared_ptr<const Tokenizer> tokenizer_ =
      test::byte_tokenizer({"<think>", "</think>", "ab"});
};

using Ids = std::vector<TokenId>;

TEST_F(BudgetedReasoningTest, TheEndComesWhenTheBudgetIsUsedUp) {
  BudgetedReasoning source = masks(budget(2, true));
  EXPECT_EQ(allowed(source), Ids());
  ASSERT_TRUE(source.accept(Ids{'a'}).ok());
  EXPECT_EQ(allowed(source), Ids());
  ASSERT_TRUE(source.accept(Ids{'b'}).ok());
  EXPECT_EQ(allowed(source), Ids{kEndThink});
  ASSERT_TRUE(source.accept(Ids{kEndThink}).ok());
  EXPECT_EQ(allowed(source), Ids{'\n'});
  ASSERT_TRUE(source.accept(Ids{'\n'}).ok());
  EXPECT_EQ(allowed(source), Ids());
}

TEST_F(BudgetedReasoningTest, AModelThatEndsByItselfIsLeftAlone) {
  BudgetedReasoning source = masks(budget(3, true));
  ASSERT_TRUE(source.accept(Ids{'a', '<', '/'}).ok());
  EXPECT_EQ(allowed(source), Ids{kEndThink}) << "a part of the mark is reasoning";
  BudgetedReasoning spelled = masks(budget(20, true));
  for (const char c : std::string("hm</think>")) ASSERT_TRUE(spelled.accept(Ids{c}).ok());
  ASSERT_TRUE(spelled.accept(Ids(40, 'a')).ok());
  EXPECT_EQ(allowed(spelled), Ids());
}

TEST_F(BudgetedReasoningTest, ReasoningBeginsByAMarkAtTheBeginningAlone) {
  BudgetedReasoning source = masks(budget(1, false));
  ASSERT_TRUE(source.accept(Ids{'\n', kThink}).ok());
  EXPECT_EQ(allowed(source), Ids());
  ASSERT_TRUE(source.accept(Ids{'a'}).ok());
  EXPECT_EQ(allowed(source), Ids{kEndThink});
  BudgetedReasoning answer = masks(budget(1, false));
  ASSERT_TRUE(answer.accept(Ids{'a', kThink, 'a', 'a'}).ok());
  EXPECT_EQ(allowed(answer), Ids());
  BudgetedReasoning none = masks(budget(0, false));
  ASSERT_TRUE(none.accept(Ids{kThink}).ok());
  EXPECT_EQ(allowed(none), Ids{kEndThink});
}

TEST_F(BudgetedReasoningTest, DraftsAreCutWhereTheEndIsForced) {
  BudgetedReasoning source = masks(budget(2, true));
  EXPECT_EQ(source.count_allowed(Ids{'a', 'b', 'c'}).value(), 2);
  EXPECT_EQ(source.count_allowed(Ids{'a', 'b', kEndThink, '\n', 'c'}).value(), 5);
  EXPECT_EQ(allowed(source, {'a', 'b'}), Ids{kEndThink});
  EXPECT_EQ(allowed(source, {'a'}), Ids());
  EXPECT_EQ(allowed(source), Ids()) << "drafts change nothing";
}

// Runs through the engine, with a model that draws tokens by a hash.
TEST(BudgetedReasoning, HoldsInTheEngineWithAndWithoutAGrammar) {
  auto options = test::small_rig();
  options.tokenizer = test::byte_tokenizer({"<think>", "</think>", "true"});
  options.fake.vocab_size = options.tokenizer->vocab_size();
  options.engine.scheduler.max_model_len = 512;
  options.engine.num_blocks = 400;
  Rig rig(options);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    auto request = test::request(tokens(9), 60);
    request.params.eos_token_ids = {options.tokenizer->vocab_size() - 1};
    request.params.ignore_eos = seed % 2 == 0;
    request.params.seed = seed;
    request.reasoning_budget = budget(7, true);
    request.reasoning_budget->forced_token_ids = {kEndThink};
    if (seed % 2 == 1) {
      request.structured_outputs = StructuredOutputs{.kind = StructuredOutputKind::kJson,
                                                     .text = R"({"enum":[true]})",
                                                     .begins_after = "</think>"};
    }
    const auto id = rig.submit(std::move(request));
    ASSERT_TRUE(id.ok()) << id.status().message();
    while (rig.engine().has_unfinished()) {
      if (!rig.engine().step()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      rig.read();
    }
    const Answer answer = rig.answer(*id);
    const auto end = std::find(answer.token_ids.begin(), answer.token_ids.end(), kEndThink);
    ASSERT_NE(end, answer.token_ids.end()) << answer.status.message();
    EXPECT_LE(end - answer.token_ids.begin(), 7);
    EXPECT_TRUE(seed % 2 == 0 || answer.text.ends_with("</think>true")) << answer.text;
  }
}

}  // namespace
}  // namespace quire
