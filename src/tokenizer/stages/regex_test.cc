#include "tokenizer/stages/regex.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

std::string first_match(std::string_view pattern, std::string_view text) {
  auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().message();
  if (!regex.ok()) return "(error)";
  const auto match = RegexMatcher(*regex).find(text, 0);
  return match ? std::string(text.substr(match->begin, match->end - match->begin)) : "(none)";
}

TEST(Regex, ReadsRubySyntax) {
  EXPECT_EQ(first_match(R"(\h+)", "xyz 1fG"), "1f");      // hex digits, not horizontal space
  EXPECT_EQ(first_match(R"(a(?m:.)b)", "a\nb"), "a\nb");  // m is dot-all
  EXPECT_EQ(first_match(R"(a.b)", "a\nb"), "(none)");
  EXPECT_EQ(first_match(R"(^b)", "a\nb"), "b");  // anchors are multi-line
  EXPECT_EQ(first_match(R"(\u00e9+)", "caféé"), "éé");
  EXPECT_EQ(first_match(R"([\s]+)", "a\u0085\u3000b"), "\u0085\u3000");
  EXPECT_EQ(first_match(R"(\s)", "\u180e"), "(none)");
  EXPECT_EQ(first_match(R"(\w+)", " \u0915\u094d\u0937½ "), "\u0915\u094d\u0937½");
  EXPECT_EQ(first_match(R"(\w+\b)", "\u0915\u094d!"), "\u0915\u094d");
  EXPECT_EQ(first_match(R"((?i:'s))", "'ſ"), "'ſ");
  EXPECT_EQ(first_match(R"([]a]+)", "a]"), "a]");
}

TEST(Regex, ClassesInsideClassesAddTheirItems) {
  EXPECT_EQ(first_match("[a[bc]d]+", "xdcab]"), "dcab");
  EXPECT_EQ(first_match(R"( ?[^(\s|[.,!?])]+)", "a]b c"), "a]b");
  EXPECT_EQ(first_match(R"( ?[^(\s|[.,!?])]+)", "|), x.y"), " x");
}

// Oniguruma has two tables for \w below U+0100; brackets decide which is used.
TEST(Regex, FractionsAreWordsOutsideOfClassesOnly) {
  EXPECT_EQ(first_match(R"(\w+)", "a½b"), "a½b");
  EXPECT_EQ(first_match(R"([\w]+)", "a½b"), "a");
  EXPECT_EQ(first_match(R"([^\w\s]+)", "a¥½b"), "¥½");
}

// CJK extension I and the emoji U+1FAE8 came with Unicode 15, Garay's letters with 16.
TEST(Regex, PropertiesAreThoseOfUnicode16) {
  EXPECT_EQ(first_match(R"(\p{L}+)", "!\U0002EBF0\U00010D4A!"), "\U0002EBF0\U00010D4A");
  EXPECT_EQ(first_match(R"([^\s\p{L}\p{N}]+)", "a\U0002EBF0\U0001FAE8b"), "\U0001FAE8");
  EXPECT_EQ(first_match(R"(\p{So})", "\U0001FAE8"), "\U0001FAE8");
  EXPECT_EQ(first_match(R"(\P{L}+)", "a\U0002EBF0!"), "!");
  EXPECT_EQ(first_match(R"([\P{L}]+)", "a\U0002EBF0!"), "!");
  EXPECT_EQ(first_match(R"(\p{^L}+)", "a\U0002EBF0!"), "!");
  EXPECT_EQ(first_match(R"(\p{Cn})", "\U0002EBF0\u0378"), "\u0378");
  EXPECT_EQ(first_match(R"(\w+)", " \U0002EBF0 "), "\U0002EBF0");
  EXPECT_EQ(first_match(R"(\d+)", "a\U00010D40"), "\U00010D40");
  EXPECT_FALSE(Regex::compile(R"(\p{Nonsense})").ok());
}

// U+3001 and U+30FC are used with Han, but are not of the script Han.
TEST(Regex, AScriptHasItsOwnCharactersOnly) {
  EXPECT_EQ(first_match(R"(\p{Han}+)", "\u3001\u30FC\u6F22\u3005\u3001"), "\u6F22\u3005");
  EXPECT_EQ(first_match(R"(\p{Hani}+)", "a\U0002EBF0"), "\U0002EBF0");
  EXPECT_EQ(first_match(R"([\p{Hiragana}\p{Katakana}]+)", "\u30FC\u304B\u30AB"), "\u304B\u30AB");
  EXPECT_EQ(first_match(R"([^\p{Han}]+)", "\u6F22\u3001"), "\u3001");
}

TEST(Regex, RefusesWhatHasNoCounterpart) {
  EXPECT_FALSE(Regex::compile("[a-z&&[^b]]").ok());
  EXPECT_FALSE(Regex::compile("[a[^bc]]").ok());
  EXPECT_FALSE(Regex::compile("[a-[b]]").ok());
  EXPECT_FALSE(Regex::compile("[[a]-z]").ok());
  EXPECT_FALSE(Regex::compile("(").ok());
  EXPECT_FALSE(Regex::compile("\\").ok());
  EXPECT_FALSE(Regex::compile(R"(\u12)").ok());
  EXPECT_FALSE(Regex::compile(std::string(100'000, 'a')).ok());
}

TEST(Regex, RunawayPatternsEnd) {
  // Without a limit, this takes exponential time.
  EXPECT_EQ(first_match("(a+)+$b", std::string(64, 'a') + "c"), "(none)");
}

}  // namespace
}  // namespace quire
