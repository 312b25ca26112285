#include "server/ranking/best_of.h"

#include <gtest/gtest.h>

namespace quire::server {
namespace {

OutputDelta delta(int32_t choice, std::vector<std::pair<TokenId, float>> tokens,
                  bool last = false) {
  OutputDelta d;
  d.choice_index = choice;
  for (const auto& [id, logprob] : tokens) {
    d.token_ids.push_back(id);
    d.logprobs.push_back({.token_id = id, .logprob = logprob, .rank = 1});
    d.text += static_cast<char>('a' + id);
  }
  if (last) d.finish_reason = FinishReason::kLength;
  return d;
}

TEST(BestOf, AnswersWithTheGreatestMeans) {
  BestOf best(4, 2);
  OutputDelta first = delta(0, {{1, -3.0f}});
  first.num_cached_tokens = 5;
  first.prompt_logprobs.push_back({.token_id = 9, .logprob = -1.0f, .rank = 2});
  EXPECT_TRUE(best.add(std::move(first)).empty());
  EXPECT_TRUE(best.add(delta(1, {{2, -1.0f}, {3, -2.0f}}, true)).empty());  // mean -1.5
  EXPECT_TRUE(best.add(delta(2, {{4, -1.4f}}, true)).empty());
  EXPECT_TRUE(best.add(delta(3, {{5, -9.0f}, {6, -0.1f}}, true)).empty());
  EXPECT_GT(best.held_bytes(), 0u);
  const std::vector<OutputDelta> answer = best.add(delta(0, {{7, -0.2f}}, true));  // mean -1.6
  ASSERT_EQ(answer.size(), 2u);
  EXPECT_EQ(answer[0].token_ids, std::vector<TokenId>{4});
  EXPECT_EQ(answer[1].token_ids, (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(answer[1].text, "cd");
  EXPECT_EQ(answer[0].choice_index, 0);
  EXPECT_EQ(answer[1].choice_index, 1);
  EXPECT_EQ(answer[0].num_cached_tokens, 5);
  EXPECT_EQ(answer[0].prompt_logprobs.size(), 1u);
  EXPECT_EQ(best.num_other_tokens(), 4);
  EXPECT_EQ(best.held_bytes(), 0u);
}

TEST(BestOf, OfEqualsTheFirst) {
  BestOf best(3, 1);
  for (int32_t i = 0; i < 2; ++i) EXPECT_TRUE(best.add(delta(i, {{i, -1.0f}}, true)).empty());
  EXPECT_EQ(best.add(delta(2, {{2, -1.0f}}, true))[0].token_ids, std::vector<TokenId>{0});
}

}  // namespace
}  // namespace quire::server
