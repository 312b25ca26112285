#include "grammar/dialects/structural_tag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/testing/test_vocabularies.h"

namespace quire::grammar {
namespace {

using test::accepts;

std::shared_ptr<const Grammar> tag(std::string text) {
  GrammarSource source;
  source.kind = GrammarKind::kStructuralTag;
  source.text = std::move(text);
  source.special_tokens = {"<tool>", "</tool>"};
  auto grammar = compile(source);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  return grammar.ok() ? *grammar : nullptr;
}
std::string error_of(std::string text) {
  GrammarSource source;
  source.kind = GrammarKind::kStructuralTag;
  source.text = std::move(text);
  return compile(source).status().message();
}

TEST(StructuralTag, OldFormIsFreeTextWithSchemasBehindTriggers) {
  const auto grammar = tag(R"({"structures": [
    {"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"},
    {"begin": "<f=b>", "schema": {"type": "null"}, "end": "</f>"}], "triggers": ["<f="]})");
  for (const char* text : {"", "free < text", "x<f=a>12</f>y<f=b>null</f>", "<f"}) {
    EXPECT_TRUE(accepts(grammar, text)) << text;
  }
  for (const char* text : {"<f=", "<f=c>1</f>", "<f=a>null</f>", "<f=a>1"}) {
    EXPECT_FALSE(accepts(grammar, text)) << text;
  }
}

TEST(StructuralTag, TriggeredTags) {
  const std::string tags = R"("tags": [{"type": "tag", "begin": "[a", "content":
    {"type": "any_text"}, "end": "]"}], "triggers": ["[a"])";
  const auto once = tag(R"({"format": {"type": "triggered_tags", )" + tags +
                        R"(, "at_least_one": true, "stop_after_first": true}})");
  EXPECT_TRUE(accepts(once, "[ab c]"));
  for (const char* text : {"", "x[a]", "[a][a]", "[a]x"}) EXPECT_FALSE(accepts(once, text)) << text;
  const auto many = tag(R"({"format": {"type": "triggered_tags", )" + tags +
                        R"(, "at_least_one": true, "excludes": ["!"]}})");
  EXPECT_TRUE(accepts(many, "[a]x[b[a1]"));
  for (const char* text : {"x[a]", "[a]!", "[a][a"}) EXPECT_FALSE(accepts(many, text)) << text;
}

TEST(StructuralTag, MarkersThatAreSpecialTokensAreThoseTokens) {
  const auto grammar = tag(R"({"type": "structural_tag", "format": {"type": "tag",
    "begin": "<tool>\n", "content": {"type": "json_schema", "json_schema": {"type": "boolean"}},
    "end": "</tool>"}})");
  EXPECT_TRUE(accepts(grammar, "\xFF<tool>\ntrue\xFF</tool>"));
  EXPECT_FALSE(accepts(grammar, "<tool>\ntrue</tool>"));
}

TEST(StructuralTag, PartsInSequence) {
  const auto grammar = tag(R"({"format": {"type": "sequence", "elements": [
    {"type": "const_string", "value": "id="},
    {"type": "or", "elements": [{"type": "regex", "pattern": "[0-9]+"},
                                {"type": "grammar", "grammar": "root ::= \"x\" root | \"y\""}]},
    {"type": "optional", "content": {"type": "const_string", "value": ";"}},
    {"type": "repeat", "min": 1, "max": 2, "content": {"type": "const_string", "value": "!"}},
    {"type": "tags_with_separator", "separator": ",", "at_least_one": true, "tags": [
      {"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": ">"}]}]}})");
  EXPECT_TRUE(accepts(grammar, "id=12!<a>"));
  EXPECT_TRUE(accepts(grammar, "id=xxy;!!<>,<b>"));
  for (const char* text : {"id=!<a>", "id=1;<a>", "id=1!!!<a>", "id=1!", "id=1!<a>,"}) {
    EXPECT_FALSE(accepts(grammar, text)) << text;
  }
}

TEST(StructuralTag, ErrorsNameThePath) {
  EXPECT_THAT(error_of(R"({"format": {"type": "sequence", "elements": [{"type": "token"}]}})"),
              testing::HasSubstr("format.elements[0].type"));
  EXPECT_THAT(error_of(R"({"format": {"type": "json_schema", "json_schema": {"type": "no"}}})"),
              testing::HasSubstr("format.json_schema"));
  EXPECT_THAT(error_of(R"({"format": {"type": "any_text", "max_tokens": 3}})"),
              testing::HasSubstr("format.max_tokens"));
  EXPECT_THAT(error_of(R"({"structures": [{"begin": "x", "schema": {}, "end": ""}],
    "triggers": ["<"]})"),
              testing::HasSubstr("structures[0].begin"));
  EXPECT_THAT(error_of("{"), testing::HasSubstr("JSON"));
}

}  // namespace
}  // namespace quire::grammar
