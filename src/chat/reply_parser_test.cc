#include "chat/reply_parser.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "chat/testing/reply_text.h"

namespace quire {
namespace {

struct Case {
  std::string_view dialect;    // empty: none
  std::string_view reasoning;  // empty: none
  std::string text;
  std::string expected;
  bool was_cut = false;
};

const ToolTypes& tools() {
  static const ToolTypes kTools(boost::json::parse(R"([
      {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
          "s": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
          "o": {"type": "object"}, "l": {"type": "array"},
          "m": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}}},
      {"type": "function", "function": {"name": "g"}},
      {"type": "function", "function": {"name": "a.b"}}])")
                                    .as_array());
  return kTools;
}

ReplyFormat format_of(const Case& c) {
  ReplyFormat format;
  if (!c.dialect.empty()) format.dialect = find_dialect(c.dialect);
  if (!c.reasoning.empty()) format.reasoning = find_reasoning_style(c.reasoning);
  EXPECT_TRUE(c.dialect.empty() || format.dialect != nullptr) << c.dialect;
  EXPECT_TRUE(c.reasoning.empty() || format.reasoning != nullptr) << c.reasoning;
  return format;
}

// Tries the markers as tokens and as text, cut at every token and in pieces of every size.
void expect_says(const Case& c) {
  const ReplyFormat format = format_of(c);
  const std::vector<MarkToken> markers = test::marker_tokens(format);
  const ReplyOptions options{.tools = &tools()};
  for (const bool has_tokens : {true, false}) {
    const std::vector<MarkToken> added = has_tokens ? markers : std::vector<MarkToken>();
    const ReplySyntax syntax(format, added);
    const test::TokenizedReply reply = test::tokenized(c.text, added);
    for (size_t piece = 0; piece <= c.text.size(); ++piece) {
      const std::string got =
          test::parsed_text(syntax, options, reply, {.was_cut = c.was_cut, .piece_bytes = piece});
      ASSERT_EQ(got, c.expected) << c.dialect << ": " << c.text << "\nin pieces of " << piece
                                 << (has_tokens ? " with marker tokens" : " as text");
    }
  }
}

TEST(ReplyParser, ReasoningAndContent) {
  const Case cases[] = {
      {"", "", "a <think> b <tool_call>", "|c:a <think> b <tool_call>"},
      {"hermes", "qwen3", "plain answer", "|c:plain answer"},
      {"hermes", "qwen3", "\n<think>\nhm</think>\n\nyes", "|r:\nhm|c:\n\nyes"},
      {"hermes", "qwen3", "<think>never ends", "|r:never ends"},
      {"hermes", "qwen3", "<think></think>ok", "|c:ok"},
      {"hermes", "qwen3", "a < b <", "|c:a < b <"},
      {"", "deepseek_r1", "hm</think>yes", "|r:hm|c:yes"},
      {"", "deepseek_r1", "<think>hm</think>yes", "|r:hm|c:yes"},
      {"", "step3p5", "\nhm\n\n</think>\n\nyes\n", "|r:hm|c:yes\n"},
      {"", "mistral", "[THINK]hm[/THINK]yes", "|r:hm|c:yes"},
      {"", "mistral", "no marks", "|c:no marks"},
      {"", "gemma4", "<|channel>thought\nhm<channel|>yes", "|r:hm|c:yes"},
      {"", "granite", "Here is my thought process: a b Here is my response: yes",
       "|r: a b |c: yes"},
      {"", "hunyuan_a13b", "<think>\nhm\n</think>\n<answer>\nyes\n</answer>", "|r:hm|c:yes"},
      {"", "ernie45", "hm\n</think>\n\n<response>\nyes\n</response>\n", "|r:hm|c:yes\n"},
      {"", "seed_oss", "<seed:think>hm</seed:think>yes", "|r:hm|c:yes"},
      {"cohere_command4", "cohere_command4",
       "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>", "|r:hm|c:yes"},
      {"hermes", "qwen3", "<think>a <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
       "|r:a |f({})"},
  };
  for (const Case& c : cases) expect_says(c);
}

TEST(ReplyParser, JsonCalls) {
  const Case cases[] = {
      {"hermes", "", R"(<tool_call>{"name": "f", "arguments": {"a": [1, "é"]}}</tool_call>)",
       R"(|f({"a": [1, "é"]}))"},
      {"hermes", "qwen3",
       "<think>x</think>Look:<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_call>\n"
       "<tool_call>{\"name\":\"g\"}</tool_call>\n",
       "|r:x|c:Look:|f({})|g({})"},
      {"hermes", "", "<tool_call>not json</tool_call> then",
       "|c:<tool_call>not json</tool_call> then"},
      {"hermes", "", R"(<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>)",
       R"(|f({"a": 1}))"},
      {"hermes", "", R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>)",
       R"(|f({"a": 1}))"},
      {"hermes", "", R"(<tool_call>{"name": "f", "arguments": {bad}}</tool_call> x)",
       R"(|c:<tool_call>{"name": "f", "arguments": {bad}}</tool_call> x)"},
      {"hermes", "", R"(<tool_call>{"name": "f", "arguments": {"a": bad}} x)",
       R"(|f({"a": ?|c:bad}} x)"},
      {"hermes", "", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>",
       R"(|f({"a": "x\ny"}))"},
      {"hermes", "", "\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n\nafter",
       "|f({})|c:after"},
      {"hermes", "", "before <tool_call>{\"name\":", "|c:before ", true},
      {"hermes", "", "before <tool_call>{\"name\":", "|c:before <tool_call>{\"name\":"},
      {"hermes", "", R"(<tool_call>{"name": "f", "arguments": {"a": 1)", R"(|f({"a": 1?)", true},
      {"hermes", "",
       R"(<tool_call>{"name": "f", "arguments": {"a": "<tool_call> </tool_call>"}}</tool_call>)",
       R"(|f({"a": "<tool_call> </tool_call>"}))"},
      {"hermes", "", "x</tool_call>y<tool_cal", "|c:x</tool_call>y<tool_cal"},
      {"llama3_json", "", R"({"name": "f", "parameters": {"a": "}\"{"}})", R"(|f({"a": "}\"{"}))"},
      {"llama3_json", "",
       R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "arguments": {}})",
       "|f({})|g({})"},
      {"llama3_json", "", "\n {\"name\": \"f\"}\n{\"name\": \"g\"}\nDone.", "|f({})|g({})|c:Done."},
      {"llama3_json", "", "Sure: {\"name\": \"f\"}", "|c:Sure: {\"name\": \"f\"}"},
      {"llama3_json", "", "Sure: <|python_tag|>{\"name\": \"f\"}", "|c:Sure: |f({})"},
      {"llama3_json", "", "{\"answer\": 42} it is", "|c:{\"answer\": 42} it is"},
      {"llama3_json", "", "{\"name\": \"Bob\"}", "|c:{\"name\": \"Bob\"}"},
      {"llama3_json", "", "<|python_tag|>print(1)", "|c:<|python_tag|>print(1)"},
      {"granite", "", R"(<|tool_call|>[{"name": "f", "arguments": {"l": [1]}}, {"name": "g"}])",
       R"(|f({"l": [1]})|g({}))"},
      {"granite-20b-fc", "",
       "<function_call> {\"name\": \"f\", \"arguments\": {}}\n<function_call> "
       "{\"name\": \"g\", \"arguments\": {}}",
       "|f({})|g({})"},
      {"internlm", "",
       "ok<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"i\": 1}}<|action_end|>",
       "|c:ok|f({\"i\": 1})"},
      {"phi4_mini_json", "", R"(functools[{"name": "f", "arguments": {"l": [1, [2]]}}])",
       R"(|f({"l": [1, [2]]}))"},
      {"phi4_mini_json", "", "use functools, they help", "|c:use functools, they help"},
      {"hunyuan_a13b", "", R"(<tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>)",
       "|f({})"},
      {"minimax", "",
       "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\"}\n</tool_calls>",
       "|f({})|g({})"},
      {"xlam", "", R"([{"name": "f", "arguments": {"i": 1}}, {"name": "g", "arguments": {}}])",
       R"(|f({"i": 1})|g({}))"},
      {"xlam", "", "```json\n[{\"name\": \"f\", \"arguments\": {}}]\n```", "|f({})"},
      {"apertus", "", R"(<|tools_prefix|>[{"f": {"i": 1}}, {"g": {}}]<|tools_suffix|>)",
       R"(|f({"i": 1})|g({}))"},
      {"cohere_command4", "",
       "<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": "
       "{\"i\": 1}}\n]<|END_ACTION|>",
       R"(|f({"i": 1}))"},
      {"gigachat3", "", R"(<|function_call|>{"name": "f", "arguments": {"i": 1}})",
       R"(|f({"i": 1}))"},
  };
  for (const Case& c : cases) expect_says(c);
}

TEST(ReplyParser, HeadedCalls) {
  const Case cases[] = {
      {"mistral", "", R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g"}])",
       R"(|f({"a": 1})|g({}))"},
      {"mistral", "", R"(Look. [TOOL_CALLS]f[ARGS]{"a": "["}[TOOL_CALLS]a.b[CALL_ID]x9[ARGS]{})",
       R"(|c:Look. |f({"a": "["})|a.b#x9({}))"},
      {"mistral", "", R"([TOOL_CALLS]f {"a": 1})", R"(|f({"a": 1}))"},
      {"mistral", "", "[TOOL_CALLS] none at all", "|c:[TOOL_CALLS] none at all"},
      {"mistral", "", "[TOOL_CALLS]f[ARGS]{\"a\": ", "|f({\"a\": ?", true},
      {"mistral", "", "[TOOL_CALLS]f[ARGS]{", "", true},
      {"mistral", "", "[TOOL_CALLS]f[ARGS]{not json}", "|c:[TOOL_CALLS]f[ARGS]{not json}"},
      {"deepseek_v3", "",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"i\": "
       "1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n"
       "{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       R"(|f({"i": 1})|g({}))"},
      {"deepseek_v31", "qwen3",
       "<think>x</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"i\": "
       "1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       R"(|r:x|f({"i": 1})|g({}))"},
      {"kimi_k2", "kimi_k2",
       "<think>x<|tool_calls_section_begin|><|tool_call_begin|>functions.a.b:3"
       "<|tool_call_argument_begin|>{\"i\": 1}<|tool_call_end|><|tool_calls_section_end|>",
       R"(|r:x|a.b#functions.a.b:3({"i": 1}))"},
      {"functionary", "", R"(<function=f>{"i": 1}</function><function=g>{}</function>)",
       R"(|f({"i": 1})|g({}))"},
      {"openai", "",
       "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.f <|constrain|>json<|message|>{\"i\": 1}<|call|>",
       R"(|r:hm|f({"i": 1}))"},
      {"openai", "", "<|channel|>final<|message|>yes<|return|>", "|c:yes"},
      {"openai", "", " to=functions.f<|channel|>commentary json<|message|>{\"i\": 1}<|call|>",
       R"(|f({"i": 1}))"},
      {"openai", "",
       "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant"
       "<|channel|>analysis<|message|>hm",
       "|c:Let me see.|r:hm"},
      {"openai", "", "plain", "|c:plain"},
  };
  for (const Case& c : cases) expect_says(c);
}

TEST(ReplyParser, TaggedCalls) {
  const Case cases[] = {
      {"qwen3_coder", "",
       "ok\n<tool_call>\n<function=f>\n<parameter=s>\n a \"b\"\n\n</parameter>\n<parameter=i>\n3\n"
       "</parameter>\n<parameter=b>\ntrue\n</parameter>\n<parameter=o>\n{'k': [None]}\n"
       "</parameter>\n</function>\n</tool_call>",
       R"(|c:ok
|f({"s": " a \"b\"\n", "i": 3, "b": true, "o": {"k": [null]}}))"},
      {"qwen3_coder", "", "<tool_call>\n<function=g>\n</function>\n</tool_call>", "|g({})"},
      {"qwen3_coder", "", "<function=f>\n<parameter=s>\nx<parameter=i>4</function>",
       R"(|f({"s": "x", "i": 4}))"},
      {"qwen3_coder", "",
       "<tool_call>\n<function=f>\n<parameter=m>\nnull\n</parameter>\n<parameter=u>\n12\n"
       "</parameter>\n<parameter=i>\nmany\n</parameter>\n</function>\n</tool_call>",
       R"(|f({"m": null, "u": "12", "i": "many"}))"},
      {"qwen3_coder", "", "<tool_call> what", "|c:<tool_call> what"},
      {"qwen3_coder", "", "<tool_call>\n<function=f>\n<parameter=s>\nab", R"(|f({"s": "ab?)", true},
      {"seed_oss", "",
       "<seed:tool_call>\n<function=f>\n<parameter=i>3</parameter>\n</function>\n"
       "</seed:tool_call>",
       R"(|f({"i": 3}))"},
      {"glm45", "",
       "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x\ny</arg_value>\n<arg_key>l</arg_key>\n"
       "<arg_value>[1]</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
       R"(|f({"s": "x\ny", "l": [1]})|g({}))"},
      {"glm47", "",
       "<tool_call>f<arg_key>i</arg_key><arg_value>1</arg_value></tool_call><tool_call>g"
       "</tool_call>",
       R"(|f({"i": 1})|g({}))"},
      {"minimax_m2", "",
       "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">x</parameter>\n</invoke>\n"
       "<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
       R"(|f({"s": "x"})|g({}))"},
      {"deepseek_v32", "",
       "\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
       "name=\"s\" string=\"true\">3</｜DSML｜parameter>\n<｜DSML｜parameter name=\"u\" "
       "string=\"false\">[3]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       R"(|f({"s": "3", "u": [3]}))"},
      {"hy_v3", "",
       "<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>i</arg_key>\n<arg_value>1</arg_value>\n"
       "</tool_call>\n</tool_calls>",
       R"(|f({"i": 1}))"},
      {"step3", "",
       "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
       "name=\"f\"><steptml:parameter name=\"i\">1</steptml:parameter></steptml:invoke>"
       "<｜tool_call_end｜><｜tool_calls_end｜>",
       R"(|f({"i": 1}))"},
      {"minicpm5", "",
       "<function name=\"f\"><param name=\"s\"><![CDATA[<b>]]></param><param "
       "name=\"i\">1</param></function>",
       R"(|f({"s": "<b>", "i": 1}))"},
  };
  for (const Case& c : cases) expect_says(c);
}

TEST(ReplyParser, PythonAndGemmaCalls) {
  const Case cases[] = {
      {"pythonic", "", R"([f(s="x, \"y\"", i=1, l=[True, None, 'z'], o={'k': (1,)}), g()])",
       R"(|f({"s": "x, \"y\"", "i": 1, "l": [true, null, "z"], "o": {"k": [1]}})|g({}))"},
      {"pythonic", "", "[1] as Smith says", "|c:[1] as Smith says"},
      {"pythonic", "", "[see(foo)]", "|c:[see(foo)]"},
      {"llama4_pythonic", "", "<|python_start|>[f(i=1.5)]<|python_end|>", R"(|f({"i": 1.5}))"},
      {"llama4_pythonic", "", "[f(i=-1)]", R"(|f({"i": -1}))"},
      {"lfm2", "", "<|tool_call_start|>[f(s='x')]<|tool_call_end|>Done",
       R"(|f({"s": "x"})|c:Done)"},
      {"olmo3", "", "<function_calls>\nf(s=\"x\")\ng(b=false)\n</function_calls>",
       R"(|f({"s": "x"})|g({"b": false}))"},
      {"gemma3", "", "```tool_code\nf(i=1)\n```", R"(|f({"i": 1}))"},
      {"gemma4", "gemma4",
       "<|channel>thought\nhm<channel|><|tool_call>call:f{s:<|\"|>a{\"}<|\"|>,i:42,b:true,"
       "o:{k:[1,<|\"|>x<|\"|>,null]},l:[]}<tool_call|><|tool_call>call:g{}<tool_call|>",
       R"(|r:hm|f({"s": "a{\"}", "i": 42, "b": true, "o": {"k": [1, "x", null]}, "l": []})|g({}))"},
      {"functiongemma", "",
       "<start_function_call>call:f{s:<escape>3<escape>,i:<escape>3<escape>,"
       "l:<escape>['a']<escape>}<end_function_call>",
       R"(|f({"s": "3", "i": 3, "l": ["a"]}))"},
  };
  for (const Case& c : cases) expect_says(c);
}

// The characters of a marker are text when other tokens spell them.
TEST(ReplyParser, MarkersTypedAsTextAreText) {
  const ReplyFormat format{find_dialect("hermes"), find_reasoning_style("qwen3")};
  const std::vector<MarkToken> markers = test::marker_tokens(format);
  const ReplySyntax syntax(format, markers);
  const std::string text = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  const test::TokenizedReply typed = test::tokenized(text, {});
  for (size_t piece = 0; piece < text.size(); ++piece) {
    EXPECT_EQ(test::parsed_text(syntax, {}, typed, {.piece_bytes = piece}), "|c:" + text);
  }
  EXPECT_EQ(test::parsed_text(syntax, {}, test::tokenized(text, markers), {}), "|f({})");
}

TEST(ReplyParser, SpecialTokensThatAreNoMarksShowNoText) {
  const ReplyFormat format{find_dialect("hermes"), nullptr};
  const std::vector<MarkToken> added = {{1000, "<tool_call>", false}, {1001, "<|eot|>", true}};
  const ReplySyntax syntax(format, added);
  EXPECT_EQ(test::parsed_text(syntax, {}, test::tokenized("a<|eot|>b", added), {}), "|c:ab");
  EXPECT_EQ(test::parsed_text(syntax, {}, test::tokenized("a<|eot|>b", {}), {}), "|c:a<|eot|>b");
}

TEST(ReplyParser, TextThatDecidesNothingIsNotHeldBack) {
  const ReplySyntax syntax({find_dialect("hermes"), nullptr}, {});
  ReplyParser parser(syntax, {});
  std::vector<ReplyEvent> events;
  parser.feed("Hello <", {}, events);
  EXPECT_EQ(test::events_text(events), "|c:Hello ");
  parser.feed("b>", {}, events);
  EXPECT_EQ(test::events_text(events), "|c:Hello <b>");
  // Arguments are passed on as the model writes them.
  events.clear();
  parser.feed(R"(<tool_call>{"name": "f", "arguments": {"a": "xy)", {}, events);
  EXPECT_EQ(test::events_text(events), R"(|f({"a": "xy)");
}

TEST(ReplyParser, CountsTheTokensOfTheReasoning) {
  const auto count = [](std::string_view reasoning, std::vector<std::string> pieces,
                        std::optional<bool> inside = {}) {
    const ReplyFormat format{nullptr, find_reasoning_style(reasoning)};
    const std::vector<MarkToken> added = test::marker_tokens(format);
    const ReplySyntax syntax(format, added);
    ReplyParser parser(syntax, {.starts_in_reasoning = inside});
    std::vector<ReplyEvent> events;
    int64_t end = 0;
    for (const std::string& piece : pieces) {
      end += static_cast<int64_t>(piece.size());
      ReplyToken token{.id = 7, .text_end_bytes = end};
      for (const MarkToken& mark : added) {
        if (mark.text == piece) token.id = mark.id;
      }
      parser.feed(piece, {&token, 1}, events);
    }
    parser.finish(false, events);
    return parser.num_reasoning_tokens();
  };
  EXPECT_EQ(count("qwen3", {"<think>", "a", "b", "</think>", "c"}), 2);
  EXPECT_EQ(count("qwen3", {"\n", "<think>", "\n", "a", "</think>"}), 2);
  EXPECT_EQ(count("qwen3", {"<think>", "a", "b"}), 2);
  EXPECT_EQ(count("qwen3", {"no", "thoughts"}), 0);
  EXPECT_EQ(count("qwen3", {"a", "b", "</think>", "c"}, true), 2);
  EXPECT_EQ(count("deepseek_r1", {"a", "b", "</think>", "c"}), 2);
  EXPECT_EQ(count("deepseek_r1", {"a", "</think>", "c"}, false), 0);
  EXPECT_EQ(count("openai_gptoss", {"<|channel|>", "analysis", "<|message|>", "a", "b", "<|end|>"}),
            2);
}

TEST(ReplyParser, ThePromptTellsWhetherTheReasoningHasBegun) {
  const ReasoningStyle& qwen = *find_reasoning_style("qwen3");
  EXPECT_EQ(starts_in_reasoning(qwen, "<|im_start|>assistant\n<think>\n"), true);
  EXPECT_EQ(starts_in_reasoning(qwen, "<think>\n\n</think>\n\n"), false);
  EXPECT_EQ(starts_in_reasoning(qwen, "user: <think> assistant:"), std::nullopt);
  EXPECT_EQ(starts_in_reasoning(qwen, "x", "<think>half a"), true);
  EXPECT_EQ(starts_in_reasoning(qwen, "x", "<think>a</think>b"), false);
}

TEST(ReplyFormat, NamesAndMistakes) {
  EXPECT_EQ(*parse_dialect_name("qwen3_xml"), find_dialect("qwen3_coder"));
  EXPECT_EQ(*parse_reasoning_name("nemotron_v3"), find_reasoning_style("deepseek_r1"));
  EXPECT_TRUE(parse_dialect_name("x").status().message().starts_with(
      "tool-call-parser: expected one of hermes, llama3_json, "));
  EXPECT_TRUE(parse_reasoning_name("x").status().message().starts_with(
      "reasoning-parser: expected one of qwen3, deepseek_r1, "));
}

}  // namespace
}  // namespace quire
