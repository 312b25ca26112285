#include "chat/mistral_template.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "chat/chat_prompt.h"
#include "chat/template_dialect.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace json = boost::json;

json::object special_tokens() { return {{"bos_token", "<s>"}, {"eos_token", "</s>"}}; }

// The expected texts are the output of mistral-common (tools/make_mistral_chat_goldens.py).
TEST(MistralTemplate, WritesConversationsAsMistralDoes) {
  const auto path = test::source_dir() / "tests/goldens/chat/mistral.json";
  const json::value goldens = json::parse(test::read_file(path));
  ASSERT_GE(goldens.as_array().size(), 50u);
  for (const json::value& golden : goldens.as_array()) {
    const std::string version(golden.at("version").as_string());
    const auto parsed = ChatTemplate::parse(mistral_chat_template(version).value());
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    ChatPromptOptions options;
    options.messages = golden.at("messages").as_array();
    if (const json::value* tools = golden.as_object().if_contains("tools"))
      options.tools = tools->as_array();
    options.special_tokens = special_tokens();
    const auto text = render_chat(*parsed, std::move(options));
    ASSERT_TRUE(text.ok()) << version << " " << text.status().message();
    EXPECT_EQ(*text, std::string(golden.at("expected").as_string()))
        << version << " " << std::string(golden.at("name").as_string());
  }
}

TEST(MistralTemplate, CallsAreReadBack) {
  for (const char* const version : {"v3", "v7", "v11", "v13", "v15"}) {
    const auto parsed = ChatTemplate::parse(mistral_chat_template(version).value());
    ASSERT_TRUE(parsed.ok());
    const TemplateCalls calls = calls_of_template(*parsed, special_tokens());
    EXPECT_TRUE(calls.reads_back) << version << ": " << calls.printed;
  }
}

TEST(MistralTemplate, ImagesHaveTheirPlaces) {
  const auto parsed = ChatTemplate::parse(mistral_chat_template("v7").value());
  ChatPromptOptions options;
  options.messages = {
      {{"role", "user"},
       {"content", json::array{{{"type", "image"}}, {{"type", "text"}, {"text", "What is it?"}}}}}};
  EXPECT_EQ(render_chat(*parsed, std::move(options)).value(), "[INST][IMG]What is it?[/INST]");
}

TEST(MistralTemplate, OtherVersionsHaveNone) {
  for (const char* const version : {"", "v", "v2", "3", "v3b", "w3", "v99999999999"})
    EXPECT_FALSE(mistral_chat_template(version)) << version;
  EXPECT_TRUE(mistral_chat_template("v16"));
}

}  // namespace
}  // namespace quire
