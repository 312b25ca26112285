#include "facade/chat/chat_history.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

// A byte counts as a token, so that a prompt's length is that of its texts.
Result<int64_t> count_bytes(const std::vector<ChatMessage>& messages) {
  int64_t n = 0;
  for (const ChatMessage& message : messages) n += static_cast<int64_t>(message.content.size());
  return n;
}

std::string texts(const ChatPrompt& prompt) {
  std::string all;
  for (const ChatMessage& message : prompt.messages) all += message.content + "|";
  return all;
}

TEST(ChatHistory, KeepsAllTurnsThatFit) {
  ChatHistory history("sys");
  history.add("q1", "a1");
  const auto prompt = history.ask("q2", {.max_model_len = 10, .answer_tokens = 1}, count_bytes);
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(texts(*prompt), "sys|q1|a1|q2|");
  EXPECT_EQ(prompt->num_tokens, 9);
  EXPECT_EQ(prompt->num_dropped_turns, 0);
}

TEST(ChatHistory, DropsTheOldestTurnsAndKeepsTheSystemMessage) {
  ChatHistory history("sys");
  history.add("q1", "a1");
  history.add("q2", "a2");
  const auto prompt = history.ask("q3", {.max_model_len = 12, .answer_tokens = 3}, count_bytes);
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(texts(*prompt), "sys|q2|a2|q3|");
  EXPECT_EQ(prompt->num_dropped_turns, 1);
  EXPECT_EQ(history.num_turns(), 1u);
}

TEST(ChatHistory, RoomForTheAnswerGivesWayToTheQuestionItself) {
  ChatHistory history;
  history.add("q1", "a1");
  const auto prompt =
      history.ask("a long one", {.max_model_len = 11, .answer_tokens = 5}, count_bytes);
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(texts(*prompt), "a long one|");
}

TEST(ChatHistory, AQuestionThatNeverFitsChangesNothing) {
  ChatHistory history;
  history.add("q1", "a1");
  const auto refused =
      history.ask("a long one", {.max_model_len = 10, .answer_tokens = 1}, count_bytes);
  EXPECT_EQ(refused.status().code(), StatusCode::kTooLarge);
  EXPECT_NE(refused.status().message().find("takes 10 tokens"), std::string::npos);
  EXPECT_EQ(history.num_turns(), 1u);
  const auto prompt = history.ask("q2", {.max_model_len = 10, .answer_tokens = 1}, count_bytes);
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(texts(*prompt), "q1|a1|q2|");
}

TEST(ChatHistory, AConversationOfAnyLengthGoesOn) {
  std::mt19937 rng(7);
  ChatHistory history("system");
  const ContextRoom room{.max_model_len = 64, .answer_tokens = 16};
  for (int turn = 0; turn < 500; ++turn) {
    const std::string question(1 + rng() % 40, 'q');
    const auto prompt = history.ask(question, room, count_bytes);
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    ASSERT_LT(prompt->num_tokens, room.max_model_len);
    ASSERT_EQ(prompt->messages.front().content, "system");
    ASSERT_EQ(prompt->messages.back().content, question);
    ASSERT_EQ(prompt->messages.size() % 2, 0u);  // system, whole turns, question
    history.add(question, std::string(rng() % 20, 'a'));
  }
}

}  // namespace
}  // namespace quire
