#include "chat/chat_prompt.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "chat/chat_template_files.h"

namespace quire {
namespace {

namespace json = boost::json;

const char* const kTemplate =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if m.tool_calls is defined %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif "
    "%}</>{% endfor %}"
    "{% if tools %}T{{ tools | length }}{% endif %}{% if add_generation_prompt %}<assistant>{% "
    "endif %}"
    "{{ mood | default('') }}";

ChatPromptOptions options_of(const char* messages) {
  ChatPromptOptions options;
  options.messages = json::parse(messages).as_array();
  options.special_tokens["bos_token"] = "<s>";
  return options;
}

Result<std::string> prompt_of(const ChatPromptOptions& options, const char* source = kTemplate) {
  const auto chat = ChatTemplate::parse(source);
  if (!chat.ok()) return chat.status();
  return render_chat(*chat, options);
}

TEST(ChatPrompt, BuildsTheContext) {
  auto options = options_of(R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(*prompt_of(options), "<s><user>Hi</><assistant>");
  options.tools = json::parse(R"([{"type":"function"}])").as_array();
  options.template_kwargs["mood"] = "!";
  options.template_kwargs["bos_token"] = "[";
  options.add_generation_prompt = false;
  EXPECT_EQ(*prompt_of(options), "[<user>Hi</>T1!");
}

TEST(ChatPrompt, DropsNullsAndParsesToolArguments) {
  auto options = options_of(
      R"([{"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f","arguments":"{\"b\": 1, \"a\": [true]}"}}]},
          {"role":"user","content":"y","tool_calls":null}])");
  EXPECT_EQ(*prompt_of(options),
            "<s><assistant>x{\"b\": 1, \"a\": [true]}</><user>y</><assistant>");
  options.parse_tool_arguments = false;
  EXPECT_EQ(*prompt_of(options),
            "<s><assistant>x\"{\\\"b\\\": 1, \\\"a\\\": [true]}\"</><user>y</><assistant>");
}

TEST(ChatPrompt, FillsInTheNamesOfReasoning) {
  const char* source =
      "{% for m in messages %}{{ m.reasoning_content }}|{{ m.thinking }};{% endfor %}";
  const auto options = options_of(
      R"([{"role":"assistant","content":"x","reasoning":"r"},{"role":"assistant","content":"x","thinking":"t"},
          {"role":"assistant","content":"x","reasoning_content":"c"}])");
  EXPECT_EQ(*prompt_of(options, source), "r|r;t|t;c|c;");
}

TEST(ChatPrompt, ContinuesTheFinalMessage) {
  auto options =
      options_of(R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Once upon "}])");
  options.add_generation_prompt = false;
  options.continue_final_message = true;
  EXPECT_EQ(*prompt_of(options), "<s><user>Hi</><assistant>Once upon ");
  EXPECT_EQ(*prompt_of(options, "{% for m in messages %}[{{ m['content'] | trim }}]{% endfor %}"),
            "[Hi][Once upon");
  EXPECT_FALSE(prompt_of(options, "{{ messages[0]['content'] }}").ok());
  EXPECT_FALSE(prompt_of(options, "{{ messages | length }}").ok());
  options.messages =
      json::parse(
          R"([{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])")
          .as_array();
  EXPECT_EQ(*prompt_of(options, "{% for c in messages[0].content %}{{ c.text }};{% endfor %}"),
            "a;b");
}

TEST(ChatPrompt, RefusesWhatMakesNoSense) {
  ChatPromptOptions empty;
  EXPECT_EQ(prompt_of(empty).status().code(), StatusCode::kInvalidArgument);
  auto options = options_of(R"([{"role":"user","content":"Hi"}])");
  options.continue_final_message = true;
  EXPECT_NE(prompt_of(options).status().message().find("exclude each other"), std::string::npos);
  options = options_of("[7]");
  EXPECT_FALSE(prompt_of(options).ok());
  options = options_of(R"([{"role":"user"}])");
  options.add_generation_prompt = false;
  options.continue_final_message = true;
  EXPECT_NE(prompt_of(options).status().message().find("no text to continue"), std::string::npos);
  for (const char* name :
       {"messages", "tools", "chat_template", "tokenize", "add_generation_prompt"}) {
    options = options_of(R"([{"role":"user","content":"Hi"}])");
    options.template_kwargs[name] = 1;
    EXPECT_NE(prompt_of(options).status().message().find("is a field of the request"),
              std::string::npos);
  }
}

TEST(ChatTemplateFiles, PicksByPlaceAndName) {
  EXPECT_EQ(find_chat_templates({})->select(false).status().code(), StatusCode::kNotFound);
  ChatTemplateFiles files;
  files.gguf_chat_template = "g";
  EXPECT_EQ(*find_chat_templates(files)->select(true), "g");
  files.tokenizer_config_json = R"({"chat_template":"c"})";
  EXPECT_EQ(*find_chat_templates(files)->select(true), "c");
  files.chat_template_json = R"({"chat_template":"j"})";
  EXPECT_EQ(*find_chat_templates(files)->select(false), "j");
  files.chat_template_jinja = "f";
  EXPECT_EQ(*find_chat_templates(files)->select(false), "f");
  files = {};
  files.tokenizer_config_json =
      R"({"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"},{"name":"rag","template":"r"}]})";
  const auto sources = find_chat_templates(files);
  EXPECT_EQ(*sources->select(false), "d");
  EXPECT_EQ(*sources->select(true), "t");
  EXPECT_EQ(*sources->select(true, "rag"), "r");
  EXPECT_FALSE(sources->select(true, "zzz").ok());
  for (const char* bad :
       {"[", "[]", R"({"chat_template":7})", R"({"chat_template":[{"name":"a"}]})"}) {
    files.tokenizer_config_json = bad;
    EXPECT_EQ(find_chat_templates(files).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ChatTemplateFiles, ReadsSpecialTokens) {
  const auto tokens = read_special_tokens(
      R"({"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"pad_token":null,"add_bos_token":true})");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(json::serialize(*tokens), R"({"bos_token":"<s>","eos_token":"</s>"})");
  EXPECT_FALSE(read_special_tokens("7").ok());
}

}  // namespace
}  // namespace quire
