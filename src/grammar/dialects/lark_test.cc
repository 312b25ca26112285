#include "grammar/dialects/lark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/testing/test_vocabularies.h"

namespace quire::grammar {
namespace {

using test::accepts;

std::shared_ptr<const Grammar> lark(std::string text) {
  GrammarSource source;
  source.kind = GrammarKind::kLark;
  source.text = std::move(text);
  source.special_tokens = {"<|call|>"};
  auto grammar = compile(source);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  return grammar.ok() ? *grammar : nullptr;
}
std::string error_of(std::string text) {
  GrammarSource source;
  source.kind = GrammarKind::kLark;
  source.text = std::move(text);
  return compile(source).status().message();
}

TEST(Lark, RulesTerminalsAndRepetitions) {
  const auto list = lark(R"(
// A list of numbers, with comments of both kinds.
start: "[" [item ("," item)*] "]"   # behind a rule
item: NUMBER | list
    | "x"i~2..3
list: start
NUMBER: DIGIT+ ("." DIGIT{1,2})?
DIGIT: "0".."9"
)");
  for (const char* text : {"[]", "[1]", "[12.5,[7],xX]", "[xxX]"}) {
    EXPECT_TRUE(accepts(list, text)) << text;
  }
  for (const char* text : {"[", "[1.234]", "[,]", "[x]", "[xxxx]"}) {
    EXPECT_FALSE(accepts(list, text)) << text;
  }
}

TEST(Lark, ATerminalMayEndBeforeItsLongestMatch) {
  const auto grammar = lark("start: A \"b\"\nA: \"a\" | \"ab\"\n");
  EXPECT_TRUE(accepts(grammar, "ab"));
  EXPECT_TRUE(accepts(grammar, "abb"));
  EXPECT_FALSE(accepts(grammar, "a"));
}

TEST(Lark, IgnoredTextStandsBetweenTerminals) {
  const auto grammar =
      lark("start: \"a\" WORD\nWORD: /[b-d]+/\n%import common.WS_INLINE\n%ignore WS_INLINE\n");
  EXPECT_TRUE(accepts(grammar, "a  bcd"));
  EXPECT_TRUE(accepts(grammar, "ab"));
  EXPECT_FALSE(accepts(grammar, "a b d"));
}

TEST(Lark, JsonSpecialTokensAndIntersections) {
  const auto grammar =
      lark("start: <|call|> %json {\"type\": \"integer\"} X\nX: /[a-z]{2}/ & ~\"no\"\n");
  EXPECT_TRUE(accepts(grammar, "\xFF<|call|>12ab"));
  EXPECT_FALSE(accepts(grammar, "<|call|>12ab"));
  EXPECT_FALSE(accepts(grammar, "\xFF<|call|>12no"));
}

TEST(Lark, WhatIsNotReadIsNamedWithItsLine) {
  EXPECT_THAT(error_of("start: \"a\"\nx[lazy]: \"b\"\n"),
              testing::AllOf(testing::HasSubstr("line 2"), testing::HasSubstr("attributes")));
  EXPECT_THAT(error_of("a: \"b\"\n"), testing::HasSubstr("'start'"));
  EXPECT_THAT(error_of("start: b\n"), testing::HasSubstr("'b'"));
  EXPECT_THAT(error_of("start: A\nA: B\nB: A\n"), testing::HasSubstr("refers to itself"));
  EXPECT_THAT(error_of("start: <|call|>\n"), testing::HasSubstr("special token"));
  EXPECT_THAT(error_of("start: \"a\n"), testing::HasSubstr("closing"));
  EXPECT_THAT(error_of("start: " + std::string(5000, '(') + "\n"), testing::HasSubstr("too deep"));
}

}  // namespace
}  // namespace quire::grammar
