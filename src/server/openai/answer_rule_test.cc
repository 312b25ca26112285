#include "server/openai/answer_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace quire::server {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

class AnswerRuleTest : public ::testing::Test {
 protected:
  ApiResult<std::optional<AnswerRule>> rule() {
    warning_.clear();
    options_.reply_format.dialect = find_dialect(dialect_);
    return answer_rule(fields_, {.options = options_, .model = model_}, warning_);
  }
  void use_tools(std::string_view text) { fields_.tools = json::parse(text).as_array(); }
  json::value format() {
    const auto made = rule();
    EXPECT_TRUE(made.ok() && made.value().has_value());
    if (!made.ok() || !made.value()) return {};
    EXPECT_EQ(made.value()->outputs.kind, StructuredOutputKind::kStructuralTag);
    return json::parse(made.value()->outputs.text).at("format");
  }

  RequestFields fields_;
  ServerOptions options_;
  ServedModel model_;
  std::string dialect_ = "hermes";
  std::string warning_;
};

constexpr std::string_view kTools = R"([
  {"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"null"}}}}},
  {"type":"function","function":{"name":"g","strict":true,"parameters":{"type":"object","properties":{"b":{"type":"null"}}}}}])";

TEST_F(AnswerRuleTest, ToolsAloneLeaveTheTextFree) {
  use_tools(R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_FALSE(rule().value().has_value());
  fields_.tool_choice = ToolChoice::kNone;
  use_tools(kTools);
  EXPECT_FALSE(rule().value().has_value());
}

TEST_F(AnswerRuleTest, ARequiredCallMayBeOfAnyToolAndOfTheNamedOneAlone) {
  use_tools(kTools);
  fields_.tool_choice = ToolChoice::kRequired;
  json::value made = format();
  EXPECT_EQ(made.at("tags").as_array().size(), 2u);
  EXPECT_EQ(made.at("at_least_one"), true);
  EXPECT_EQ(made.at("stop_after_first"), false);
  fields_.parallel_tool_calls = false;
  EXPECT_EQ(format().at("stop_after_first"), true);
  fields_.tool_choice = ToolChoice::kNamed;
  fields_.tool_choice_name = "g";
  fields_.parallel_tool_calls = true;
  made = format();
  ASSERT_EQ(made.at("tags").as_array().size(), 1u);
  EXPECT_THAT(std::string(made.at("tags").at(0).at("begin").as_string()), HasSubstr("\"g\""));
  EXPECT_EQ(made.at("stop_after_first"), true);
}

TEST_F(AnswerRuleTest, WhereTheModelChoosesOnlyStrictToolsAreHeldToTheirSchemas) {
  use_tools(kTools);
  const json::value made = format();
  EXPECT_EQ(made.at("type"), "triggered_tags");
  EXPECT_EQ(made.at("at_least_one"), false);
  EXPECT_EQ(made.at("tags").at(0).at("content").at("json_schema"),
            json::parse(R"({"type":"object"})"));
  EXPECT_TRUE(
      made.at("tags").at(1).at("content").at("json_schema").as_object().contains("properties"));
  fields_.response_format = StructuredOutputs{.kind = StructuredOutputKind::kJsonObject};
  EXPECT_EQ(rule().value()->outputs.kind, StructuredOutputKind::kJsonObject);
}

TEST_F(AnswerRuleTest, AModelWithoutADialectCannotBeMadeToCall) {
  use_tools(kTools);
  dialect_ = "nobody's";
  EXPECT_FALSE(rule().value().has_value());
  EXPECT_THAT(warning_, HasSubstr("strict"));
  fields_.tool_choice = ToolChoice::kRequired;
  EXPECT_THAT(rule().error().message, HasSubstr("--tool-call-parser"));
}

TEST_F(AnswerRuleTest, TheRuleOfGptOssCoversItsReasoning) {
  use_tools(kTools);
  dialect_ = "openai";
  EXPECT_FALSE(rule().value().has_value());
  EXPECT_THAT(warning_, HasSubstr("strict"));
  fields_.tool_choice = ToolChoice::kRequired;
  EXPECT_TRUE(rule().value()->covers_reasoning);
  dialect_ = "hermes";
  EXPECT_FALSE(rule().value()->covers_reasoning);
}

TEST_F(AnswerRuleTest, ACallThatMustComeStandsBesideNoGrammar) {
  use_tools(kTools);
  fields_.tool_choice = ToolChoice::kRequired;
  fields_.structured_outputs = StructuredOutputs{.kind = StructuredOutputKind::kJsonObject};
  EXPECT_EQ(rule().error().param, "structured_outputs");
  fields_.structured_outputs.reset();
  fields_.response_format = StructuredOutputs{.kind = StructuredOutputKind::kJsonObject};
  EXPECT_EQ(rule().value()->outputs.kind, StructuredOutputKind::kStructuralTag);
}

}  // namespace
}  // namespace quire::server
