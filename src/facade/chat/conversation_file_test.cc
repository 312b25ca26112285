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

TEST(ConversationFile, ImagesStayWithTheirQuestions) {
  ChatHistory history;
  history.add("before", "yes");
  history.attach_image(std::string("\x89PNG\0\xff", 6));
  history.attach_image("second");
  history.add("What are they?", "Two.");
  history.add("after", "no");
  const auto loaded = parse_conversation(conversation_text(history.messages()));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ChatHistory again;
  again.restore(*loaded);
  const std::vector<ChatMessage> messages = again.messages();
  ASSERT_EQ(messages.size(), 6u);
  EXPECT_TRUE(messages[0].images.empty());
  EXPECT_EQ(messages[2].content, "What are they?");
  EXPECT_EQ(messages[2].images,
            (std::vector<std::string>{std::string("\x89PNG\0\xff", 6), "second"}));
  EXPECT_TRUE(messages[4].images.empty());
  again.attach_image("third");
  again.forget_turns();
  again.add("q", "a");
  EXPECT_TRUE(again.messages()[0].images.empty());
}

TEST(ConversationFile, WhatIsNoneIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected JSON"},
      {"[]", "expected {\"messages\""},
      {R"({"messages":[1]})", "messages.0: expected a role"},
      {R"({"messages":[{"role":"user"}]})", "messages.0: expected a role"},
      {R"({"messages":[{"role":"user","content":[1]}]})", "messages.0: content: expected parts"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]})",
       "expected a text, or an image_url with a data: URL"},
      {R"({"messages":[{"role":"user","content":[{"image_url":{"url":"data:image;base64,*"}}]}]})",
       "expected base64"},
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
