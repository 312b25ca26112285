#include "chat/tool_grammar.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace quire {
namespace {

namespace json = boost::json;

const json::array& tools() {
  static const json::array kTools = json::parse(R"([
      {"type": "function", "function": {"name": "f", "parameters": {"type": "object",
       "properties": {"s": {"type": "string"}, "i": {"type": "integer"}}, "required": ["s"]}}},
      {"type": "function", "function": {"name": "g"}}])")
                                        .as_array();
  return kTools;
}

json::value format_of(std::string_view dialect, const ToolGrammarOptions& options,
                      const json::array& of = tools()) {
  const auto grammar = tool_grammar(*find_dialect(dialect), of, options);
  EXPECT_TRUE(grammar.ok()) << dialect << ": " << grammar.status().message();
  EXPECT_EQ(grammar->at("type"), "structural_tag");
  return grammar->at("format");
}

TEST(ToolGrammar, MarkersStandAroundTheSchema) {
  const json::value format = format_of("hermes", {.at_least_one = true});
  EXPECT_EQ(format.at("type"), "tags_with_separator");
  EXPECT_EQ(format.at("separator"), "\n");
  EXPECT_EQ(format.at("at_least_one"), true);
  const json::value& tag = format.at("tags").at(0);
  EXPECT_EQ(tag.at("begin"), "<tool_call>\n{\"name\": \"f\", \"arguments\": ");
  EXPECT_EQ(tag.at("end"), "}\n</tool_call>");
  EXPECT_EQ(tag.at("content").at("json_schema"), tools()[0].at("function").at("parameters"));
  EXPECT_EQ(format.at("tags").at(1).at("content").at("json_schema"),
            json::parse(R"({"type": "object"})"));
}

TEST(ToolGrammar, FreeTextSwitchesAtTheMark) {
  const json::value format = format_of("mistral_list", {.parallel_tool_calls = false});
  EXPECT_EQ(format.at("type"), "triggered_tags");
  EXPECT_EQ(format.at("triggers"), json::parse(R"(["[TOOL_CALLS]"])"));
  EXPECT_EQ(format.at("stop_after_first"), true);
  EXPECT_EQ(format.at("tags").at(0).at("begin"), "[TOOL_CALLS][");
  EXPECT_EQ(format.at("tags").at(0).at("end"), "]");
}

TEST(ToolGrammar, TaggedParametersComeInOrder) {
  const json::value format = format_of("qwen3_coder", {.at_least_one = true});
  const json::value& content = format.at("tags").at(0).at("content");
  EXPECT_EQ(format.at("tags").at(0).at("begin"), "<tool_call>\n<function=f>\n");
  EXPECT_EQ(content.at("type"), "sequence");
  const json::value& text = content.at("elements").at(0);
  EXPECT_EQ(text.at("begin"), "<parameter=s>\n");
  EXPECT_EQ(text.at("end"), "\n</parameter>\n");
  EXPECT_EQ(text.at("content").at("type"), "any_text");
  const json::value& number = content.at("elements").at(1);
  EXPECT_EQ(number.at("type"), "optional");
  EXPECT_EQ(number.at("content").at("content").at("json_schema"),
            json::parse(R"({"type": "integer"})"));
  const json::value v32 = format_of("deepseek_v32", {.at_least_one = true});
  EXPECT_EQ(v32.at("content")
                .at("tags")
                .at(0)
                .at("content")
                .at("elements")
                .at(1)
                .at("content")
                .at("begin"),
            "<｜DSML｜parameter name=\"i\" string=\"false\">");
}

TEST(ToolGrammar, OtherSyntaxesAreEbnf) {
  const json::value format = format_of("pythonic", {.at_least_one = true});
  const json::value& tag = format.at("content").at("tags").at(0);
  EXPECT_EQ(tag.at("begin"), "f(");
  const std::string grammar(tag.at("content").at("grammar").as_string());
  EXPECT_TRUE(grammar.starts_with("root ::= first-0\nfirst-0 ::= \"s=\" (string) next-1\n"))
      << grammar;
  EXPECT_NE(grammar.find("next-1 ::= \", \" \"i=\" (integer) next-2 | next-2\n"), grammar.npos);
}

TEST(ToolGrammar, AToolThatDeclaresNoParametersHasNone) {
  const json::array none = json::parse(R"([{"function": {"name": "f", "parameters":
      {"type": "object", "properties": {}}}}])")
                               .as_array();
  const json::value format = format_of("pythonic", {.at_least_one = true}, none);
  const std::string grammar(
      format.at("content").at("tags").at(0).at("content").at("grammar").as_string());
  EXPECT_TRUE(grammar.starts_with("root ::= first-0\nfirst-0 ::= \"\"\n")) << grammar;
}

json::array tool_with_enum(json::array values) {
  json::object place{{"type", "string"}, {"enum", std::move(values)}};
  json::object parameters{{"type", "object"}, {"properties", {{"s", std::move(place)}}}};
  return {{{"function", {{"name", "f"}, {"parameters", std::move(parameters)}}}}};
}

TEST(ToolGrammar, EnumsMayHaveQuotesAndBackslashes) {
  const json::array of = tool_with_enum({"a", "b\"c", "d\\e", "f\ng", "h\x01"});
  const json::value python = format_of("pythonic", {.at_least_one = true}, of);
  const std::string in_python(
      python.at("content").at("tags").at(0).at("content").at("grammar").as_string());
  EXPECT_NE(
      in_python.find(R"x(("\"a\"" | "\"b\\\"c\"" | "\"d\\\\e\"" | "\"f\\ng\"" | "\"h\\x01\""))x"),
      std::string::npos)
      << in_python;
  // Gemma's strings have no escapes, so all but their quote may stand in them.
  const json::array plain = tool_with_enum({"b\"c", "d\\e"});
  const std::string in_gemma = json::serialize(format_of("gemma4", {.at_least_one = true}, plain));
  EXPECT_NE(
      in_gemma.find(json::serialize(json::string(R"x(("<|\"|>b\"c<|\"|>" | "<|\"|>d\\e<|\"|>"))x"))
                        .substr(1, 40)),
      std::string::npos)
      << in_gemma;
  const auto refused =
      tool_grammar(*find_dialect("gemma4"), tool_with_enum({"a<|\"|>b"}), {.at_least_one = true});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
}

TEST(ToolGrammar, KimiCountsItsCalls) {
  const json::value format = format_of("kimi_k2", {.at_least_one = true});
  const json::value& tag = format.at("content").at("tags").at(0);
  EXPECT_EQ(tag.at("begin"), "<|tool_call_begin|>functions.f:");
  EXPECT_EQ(tag.at("content").at("elements").at(0).at("type"), "regex");
}

TEST(ToolGrammar, RefusesWhatHasNoGrammar) {
  const Dialect& hermes = *find_dialect("hermes");
  EXPECT_FALSE(tool_grammar(hermes, {}).ok());
  EXPECT_FALSE(
      tool_grammar(hermes, json::parse(R"([{"function": {"name": "a b"}}])").as_array()).ok());
  EXPECT_FALSE(
      tool_grammar(hermes,
                   json::parse(R"([{"function": {"name": "f", "parameters": 7}}])").as_array())
          .ok());
  // With strict: false any object may be the arguments.
  const json::value loose =
      format_of("hermes", {.at_least_one = true},
                json::parse(R"([{"function": {"name": "f", "strict": false, "parameters":
                      {"type": "object", "properties": {"a": {"type": "integer"}}}}}])")
                    .as_array());
  EXPECT_EQ(loose.at("tags").at(0).at("content").at("json_schema"),
            json::parse(R"({"type": "object"})"));
}

TEST(ToolGrammar, EveryDialectWithALayoutHasOne) {
  for (const Dialect& dialect : dialects()) {
    if (dialect.layout.call_begin.empty()) continue;
    for (const bool at_least_one : {false, true}) {
      EXPECT_TRUE(tool_grammar(dialect, tools(), {.at_least_one = at_least_one}).ok())
          << dialect.name;
    }
  }
}

}  // namespace
}  // namespace quire
