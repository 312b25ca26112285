#include "chat/reply_parser.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Kind = ReplyPart::Kind;
constexpr ReplyFormat kQwen{ReasoningFormat::kQwen3, ToolCallFormat::kHermes};
constexpr ReplyFormat kR1{ReasoningFormat::kDeepSeekR1, ToolCallFormat::kNone};
constexpr ReplyFormat kLlama{ReasoningFormat::kNone, ToolCallFormat::kLlama3Json};
constexpr ReplyFormat kMistral{ReasoningFormat::kQwen3, ToolCallFormat::kMistral};

// "r:…|c:…|name(arguments)|", neighbours of one kind put together; cut in pieces of `size` bytes.
std::string parsed(ReplyFormat format, std::string_view text, size_t size) {
  ReplyParser parser(format);
  std::vector<ReplyPart> parts;
  for (size_t i = 0; i < text.size(); i += size) parser.feed(text.substr(i, size), parts);
  parser.finish(parts);
  std::string out;
  Kind last = Kind::kToolCall;
  for (const ReplyPart& part : parts) {
    if (part.kind == Kind::kToolCall) {
      out += "|" + part.name + "(" + part.text + ")";
    } else {
      if (part.kind != last) out += part.kind == Kind::kReasoning ? "|r:" : "|c:";
      out += part.text;
    }
    last = part.kind;
  }
  return out;
}

struct Case {
  ReplyFormat format;
  const char* text;
  const char* expected;
};

TEST(ReplyParser, TakesRepliesApartHoweverTheyAreCut) {
  const Case cases[] = {
      {{}, "a <think> b <tool_call>", "|c:a <think> b <tool_call>"},
      {kQwen, "plain answer", "|c:plain answer"},
      {kQwen, "\n<think>\nhm</think>\n\nyes", "|r:\nhm|c:\n\nyes"},
      {kQwen, "<think>never ends", "|r:never ends"},
      {kQwen, "<thin", "|c:<thin"},
      {kQwen, "a < b <think>", "|c:a < b <think>"},
      {kQwen, "<think></think>ok", "|c:ok"},
      {kR1, "hm</think>yes", "|r:hm|c:yes"},
      {kR1, "<think>hm</think>yes", "|r:hm|c:yes"},
      {kQwen, R"(<tool_call>{"name": "f", "arguments": {"a": [1, "é"]}}</tool_call>)",
       R"(|f({"a":[1,"é"]}))"},
      {kQwen,
       "<think>x</think>Look:<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_call>\n"
       "<tool_call>{\"name\":\"g\"}</tool_call>\n",
       "|r:x|c:Look:|f({})|g({})"},
      {kQwen, "<tool_call>not json</tool_call> then", "|c:<tool_call>not json</tool_call> then"},
      {kQwen, "before <tool_call>{\"name\":", "|c:before "},
      {kQwen, "<tool_call>{\"name\":\"f\"}</tool_call> after", "|f({})|c:after"},
      {kQwen, "x</tool_call>y<tool_cal", "|c:x</tool_call>y<tool_cal"},
      {kLlama, R"({"name": "f", "parameters": {"a": "}\"{"}})", R"(|f({"a":"}\"{"}))"},
      {kLlama, R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "arguments": {}})",
       "|f({})|g({})"},
      {kLlama, "\n {\"name\": \"f\"}\n{\"name\": \"g\"}\nDone.", "|f({})|g({})|c:Done."},
      {kLlama, "Sure: {\"name\": \"f\"}", "|c:Sure: {\"name\": \"f\"}"},
      {kLlama, "Sure: <|python_tag|>{\"name\": \"f\"}", "|c:Sure: |f({})"},
      {kLlama, "{\"answer\": 42} it is", "|c:{\"answer\": 42} it is"},
      {kLlama, "<|python_tag|>print(1)", "|c:<|python_tag|>print(1)"},
      // Nothing but its brace says that this is a call; the next does say so.
      {kLlama, "{\"name\": \"f\", \"para", "|c:{\"name\": \"f\", \"para"},
      {kLlama, "<|python_tag|>{\"name\": \"f\", \"para", ""},
      {kLlama, "{\"name\": \"f\"}; {\"na", "|f({})"},
      {kMistral, R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g"}])",
       R"(|f({"a":1})|g({}))"},
      {kMistral, R"(Look. [TOOL_CALLS]f[ARGS]{"a": "["}[TOOL_CALLS]g.h-1[CALL_ID]x9[ARGS]{})",
       R"(|c:Look. |f({"a":"["})|g.h-1({}))"},
      {kMistral, R"([TOOL_CALLS]f {"a": 1})", R"(|f({"a":1}))"},
      {kMistral, "<think>h</think>[TOOL_CALLS] none", "|r:h"},
      {kMistral, "[TOOL_CALLS] none at all", "|c:[TOOL_CALLS] none at all"},
      {kMistral, "[TOOL_CALLS]f[ARGS]{not json} [TOOL_CALLS",
       "|c:[TOOL_CALLS]f[ARGS]{not json} [TOOL_CALLS"},
      {kMistral, "[TOOL_CALLS]f[ARGS]{\"a\": ", ""},
      {kMistral, "a [TOOL x] b", "|c:a [TOOL x] b"}};
  for (const Case& c : cases) {
    for (size_t size = 1; size <= std::string_view(c.text).size(); ++size) {
      ASSERT_EQ(parsed(c.format, c.text, size), c.expected) << c.text << " in pieces of " << size;
    }
  }
}

TEST(ReplyParser, TextThatDecidesNothingIsNotHeldBack) {
  ReplyParser parser(kQwen);
  std::vector<ReplyPart> parts;
  parser.feed("Hello <", parts);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].text, "Hello ");
  parser.feed("b>", parts);
  EXPECT_EQ(parts[0].text, "Hello <b>");
}

TEST(ReplyParser, FormatsByName) {
  EXPECT_TRUE(parse_reasoning_format("qwen3").ok());
  EXPECT_TRUE(parse_tool_call_format("").ok());
  EXPECT_EQ(parse_tool_call_format("x").status().message(),
            "tool-call-parser: expected hermes, llama3_json or mistral, got x");
}

TEST(ToolCalls, ATemplateTellsItsFormat) {
  using Format = ToolCallFormat;
  EXPECT_EQ(
      guess_tool_call_format("{{ '<tool_call>' ~ {'name': c.name, 'arguments': c.arguments} }}"),
      Format::kHermes);
  EXPECT_EQ(guess_tool_call_format("<|start_header_id|> {{ '\"parameters\": ' }}"),
            Format::kLlama3Json);
  EXPECT_EQ(guess_tool_call_format("{{ '[TOOL_CALLS]' }}"), Format::kMistral);
  EXPECT_EQ(guess_tool_call_format("{{ messages }}"), Format::kNone);
  // The marks of one, and what another writes behind them.
  EXPECT_EQ(guess_tool_call_format("<tool_call><function=f> arguments"), Format::kNone);
  EXPECT_EQ(guess_tool_call_format("<tool_call> arguments [TOOL_CALLS]"), Format::kNone);
}

}  // namespace
}  // namespace quire
