#include "tokenizer/stages/word_scanner.h"

#include <gtest/gtest.h>

#include "tokenizer/stages/regex.h"
#include "tokenizer/testing/test_texts.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

std::vector<std::string_view> words_by_regex(const Regex& regex, std::string_view text) {
  RegexMatcher matcher(regex);
  std::vector<std::string_view> words;
  for (size_t from = 0; from < text.size();) {
    const auto match = matcher.find(text, from);
    if (!match || match->begin != from) return {};  // the patterns cover every character
    words.push_back(text.substr(from, match->end - from));
    from = match->end;
  }
  return words;
}

class KnownPattern : public ::testing::TestWithParam<std::string_view> {};

TEST_P(KnownPattern, ScannerFindsWhatTheRegexFinds) {
  const auto scanner = WordScanner::for_pattern(GetParam());
  ASSERT_TRUE(scanner.has_value());
  auto regex = Regex::compile(GetParam());
  ASSERT_TRUE(regex.ok()) << regex.status().message();
  constexpr unsigned kSeed = 20;
  test::TextMaker texts(kSeed);
  for (int i = 0; i < 4000; ++i) {
    const std::string text = texts.next();
    std::vector<std::string_view> words;
    scanner->scan(text, words);
    ASSERT_EQ(words, words_by_regex(*regex, text))
        << "seed " << kSeed << ", text " << i << ": '" << text << "'";
  }
}

TEST_P(KnownPattern, EveryPairOfCharactersAgrees) {
  const auto scanner = WordScanner::for_pattern(GetParam());
  auto regex = Regex::compile(GetParam());
  ASSERT_TRUE(scanner && regex.ok());
  const std::u32string chars =
      U"a A\u01C5\u02B0\u4E00\u0301\u0903 "
      U"\u00A0\t\n\r1\u0662\u00BD'sSlLvEdD\u017Frt.,/!\u20AC\u200D\u0085";
  for (const char32_t a : chars) {
    for (const char32_t b : chars) {
      for (const char32_t c : chars) {
        std::string text;
        for (const char32_t each : {a, b, c, a}) append_utf8(text, each);
        std::vector<std::string_view> words;
        scanner->scan(text, words);
        ASSERT_EQ(words, words_by_regex(*regex, text)) << "'" << text << "'";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KnownPattern,
                         ::testing::Values(kGpt2Pattern, kLlama3Pattern, kQwen2Pattern,
                                           kR50kPattern, kCl100kPattern, kO200kPattern));

TEST(WordScanner, LeavesUnknownPatternsToTheRegex) {
  EXPECT_FALSE(WordScanner::for_pattern(R"(\p{L}+)").has_value());
}

}  // namespace
}  // namespace quire
