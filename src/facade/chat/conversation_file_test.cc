#include "facade/chat/conversation_file.h"

#include <gtest/gtest.h>

#include "facade/chat/chat_history.h"

namespace quire {
namespace {

TEST(ConversationFile, WhatIsSavedIsLoaded) {
  ChatHistory history("Be \"kind\".\n");
  history.add("Hello", "Hi \xc3\xa4");
  history.add("", "nothing?");
  const auto loaded = parse_conversation(conversation_text(history.messages()));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ChatHistory again;
  again.restore(*loaded);
  EXPECT_EQ(again.num_turns(), 2u);
  EXPECT_EQ(conversation_text(again.messages()), conversation_text(history.messages()));
  EXPECT_TRUE(parse_conversation(conversation_text({}))->empty());
}

TEST(ConversationFile, WhatIsNoneIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected JSON"},
      {"[]", "expected {\"messages\""},
      {R"({"messages":[1]})", "messages.0: expected a role"},
      {R"({"messages":[{"role":"user"}]})", "messages.0: expected a role"},
      {R"({"messages":[{"role":"assistant","content":"a"}]})", "messages.0.role: expected user"},
      {R"({"messages":[{"role":"user","content":"a"}]})", "expected an answer"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]})",
       "messages.1.role: expected assistant, got system"}};
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_conversation(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find(expected), std::string::npos)
        << parsed.status().message();
  }
}

}  // namespace
}  // namespace quire
