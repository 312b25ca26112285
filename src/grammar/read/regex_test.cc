#include "grammar/read/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "grammar/read/number_expr.h"

namespace quire::grammar {
namespace {

bool matches(std::string_view pattern, std::string_view text, RegexMatch match = RegexMatch::kFull,
             TextForm form = TextForm::kPlain) {
  ExprStore store;
  Encoder encoder(store, form);
  const auto expr = regex_expr(encoder, pattern, {.match = match});
  EXPECT_TRUE(expr.ok()) << pattern << ": " << expr.status().message();
  return expr.ok() && store.matches(*expr, text);
}
bool found(std::string_view pattern, std::string_view text) {
  return matches(pattern, text, RegexMatch::kSearch);
}
std::string error_of(std::string_view pattern) {
  ExprStore store;
  Encoder encoder(store, TextForm::kPlain);
  return regex_expr(encoder, pattern).status().message();
}

TEST(Regex, Ecma) {
  EXPECT_TRUE(matches("a|bc*", "bccc"));
  EXPECT_TRUE(matches("\\d{3}-\\w+?", "123-a_9"));
  EXPECT_FALSE(matches("\\d", "\xD9\xA3"));  // an Arabic digit
  EXPECT_TRUE(matches("\\s", "\xC2\xA0"));
  EXPECT_FALSE(matches(".", "\n"));
  EXPECT_TRUE(matches("x{a}", "x{a}"));
  EXPECT_TRUE(matches("[\\w-]+[^\\]a]", "a-b!"));
  EXPECT_TRUE(matches("\\u{1F600}\\x41\\cA",
                      "\xF0\x9F\x98\x80"
                      "A\x01"));
  EXPECT_TRUE(matches("(?<year>\\d{4})(?:-\\/)?", "2024-/"));
  EXPECT_TRUE(matches("\\p{L}+",
                      "Stra\xC3\x9F"
                      "e"));
  EXPECT_TRUE(matches("[^]", "\n"));
}

TEST(Regex, SearchAndAnchors) {
  EXPECT_TRUE(found("b", "abc"));
  EXPECT_FALSE(found("^b", "abc"));
  EXPECT_TRUE(found("^a", "abc"));
  EXPECT_TRUE(found("^$|^[A-Z]+$", ""));
  EXPECT_FALSE(found("^$|^[A-Z]+$", "Ab"));
  EXPECT_TRUE(found("(^a|b)c", "xbc"));
  EXPECT_FALSE(found("(^a|b)c", "xac"));
  EXPECT_FALSE(found("a$b", "ab"));
  EXPECT_TRUE(found("x(?:$|,)", "ax"));
}

TEST(Regex, LookAhead) {
  EXPECT_TRUE(found("^(?=.*\\d)(?=.*[a-z]).{3,}$", "ab1"));
  EXPECT_FALSE(found("^(?=.*\\d)(?=.*[a-z]).{3,}$", "abc"));
  EXPECT_FALSE(found("^(?!foo).*$", "foobar"));
  EXPECT_TRUE(found("^(?!foo$).*$", "foobar"));
}

TEST(Regex, RefusesWhatIsNotRegular) {
  EXPECT_THAT(error_of("(a)\\1"), testing::HasSubstr("back references"));
  EXPECT_THAT(error_of("(?<=a)b"), testing::HasSubstr("look-behind"));
  EXPECT_THAT(error_of("a**)"), testing::HasSubstr("unmatched"));
  EXPECT_THAT(error_of("(a"), testing::HasSubstr("expected ')'"));
  EXPECT_THAT(error_of("[b-a]"), testing::HasSubstr("order"));
  EXPECT_THAT(error_of("*"), testing::HasSubstr("nothing to repeat"));
}

TEST(Regex, JsonFormReadsEscapes) {
  const auto in_json = [](std::string_view pattern, std::string_view text) {
    return matches(pattern, text, RegexMatch::kFull, TextForm::kJsonString);
  };
  EXPECT_TRUE(in_json("a\"b", "a\\\"b"));
  EXPECT_FALSE(in_json("a.b", "a\"b"));
  EXPECT_TRUE(in_json("\\n", "\\n"));
  EXPECT_TRUE(in_json("\\n", "\\u000A"));
  EXPECT_FALSE(in_json("[^]", "\n"));
  EXPECT_TRUE(in_json("\\u00e9", "\\u00E9"));
  EXPECT_TRUE(in_json("\\u00e9", "\xC3\xA9"));
  EXPECT_TRUE(in_json("[^]", "\\ud83d\\ude00"));
  EXPECT_FALSE(in_json("[^]", "\\ud83d"));
}

TEST(Utf8, IllFormedBytesNeverMatch) {
  ExprStore store;
  Encoder encoder(store, TextForm::kPlain);
  const ExprId any = encoder.any_char();
  for (const std::string_view bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80",
                                     "\xE0\x80\x80", "\xF0\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(store.matches(any, bad));
  }
  EXPECT_TRUE(store.matches(any, "\xF4\x8F\xBF\xBF"));
}

// Compares every number with few digits with arithmetic of int64 scaled by 100.
TEST(NumberExpr, RangesAgreeWithArithmetic) {
  ExprStore store;
  NumberRange range;
  range.lower = NumberBound{*Decimal::parse("-1.5"), true};
  range.upper = NumberBound{*Decimal::parse("20.25"), false};
  range.divisors = {*Decimal::parse("0.75")};
  const auto expr = number_expr(store, range);
  ASSERT_TRUE(expr.ok());
  for (int hundredths = -3000; hundredths <= 3000; ++hundredths) {
    const bool expected = hundredths > -150 && hundredths <= 2025 && hundredths % 75 == 0;
    const int magnitude = std::abs(hundredths);
    const std::string text =
        fmt::format("{}{}.{:02}", hundredths < 0 ? "-" : "", magnitude / 100, magnitude % 100);
    EXPECT_EQ(store.matches(*expr, text), expected) << text;
    EXPECT_EQ(store.matches(*expr, text + "000"), expected) << text;
    if (magnitude % 100 == 0) {
      EXPECT_EQ(store.matches(*expr, text.substr(0, text.size() - 3)), expected) << text;
    }
  }
}

bool is_inside(const Decimal& value, const NumberRange& range) {
  const int from_lower = compare(value, range.lower->value);
  const int from_upper = compare(value, range.upper->value);
  return (from_lower > 0 || (from_lower == 0 && !range.lower->is_exclusive)) &&
         (from_upper < 0 || (from_upper == 0 && !range.upper->is_exclusive));
}

// Within bounds, a number with an exponent is allowed only if all numbers with that exponent are
// within them.
TEST(Number, ExponentsKeepToTheBounds) {
  const char* const bounds[] = {"-1000", "-20.5", "-1",   "-0.004", "0",    "0.0001",
                                "0.25",  "1",     "9.99", "10",     "2500", "1e25"};
  int num_allowed = 0;
  for (size_t i = 0; i < std::size(bounds); ++i) {
    for (size_t j = i + 1; j < std::size(bounds); ++j) {
      const bool is_exclusive = (i + j) % 2 == 0;
      NumberRange range;
      range.lower = NumberBound{*Decimal::parse(bounds[i]), is_exclusive};
      range.upper = NumberBound{*Decimal::parse(bounds[j]), !is_exclusive};
      ExprStore store;
      const auto expr = number_expr(store, range);
      ASSERT_TRUE(expr.ok());
      for (const std::string sign : {"", "-"}) {
        for (int n = -12; n <= 27; ++n) {
          const auto at = [&](const std::string& mantissa, int exponent) {
            return *Decimal::parse(fmt::format("{}{}e{}", sign, mantissa, exponent));
          };
          const Decimal end = at("1", n + 1);
          const bool is_bound =
              compare(end, range.lower->value) == 0 || compare(end, range.upper->value) == 0;
          const bool are_all = is_inside(at("1", n), range) && (is_bound || is_inside(end, range));
          for (const std::string mantissa : {"1", "1.00", "3.5", "9.999"}) {
            const std::string text = fmt::format("{}{}e{:+03}", sign, mantissa, n);
            const bool is_allowed = store.matches(*expr, text);
            EXPECT_EQ(is_allowed, are_all) << text << " in " << bounds[i] << " to " << bounds[j];
            EXPECT_TRUE(!is_allowed || is_inside(at(mantissa, n), range)) << text;
            num_allowed += is_allowed;
          }
        }
      }
      for (const char* text : {"0e0", "10e1", ".5e1", "1e", "1e+", "1.e1", "01e1"}) {
        EXPECT_FALSE(store.matches(*expr, text)) << text;
      }
    }
  }
  EXPECT_GT(num_allowed, 1000);
}

TEST(Decimal, ParsesExactly) {
  EXPECT_EQ(Decimal::parse("-12.500e1")->to_string(), "-125");
  EXPECT_EQ(Decimal::parse("1e-3")->to_string(), "0.001");
  EXPECT_EQ(Decimal::parse("-0.0")->to_string(), "0");
  EXPECT_FALSE(Decimal::parse("1e1000"));
  EXPECT_LT(compare(*Decimal::parse("-10"), *Decimal::parse("-9.99")), 0);
  EXPECT_GT(compare(*Decimal::parse("0.1000000000000000000001"), *Decimal::parse("0.1")), 0);
}

TEST(ExprStore, EmptinessOfIntersections) {
  ExprStore store;
  Encoder encoder(store, TextForm::kPlain);
  const auto expr = [&](std::string_view pattern) { return *regex_expr(encoder, pattern); };
  EXPECT_FALSE(store.is_live(store.all_of({expr("a+b"), expr("a*c")})));
  EXPECT_TRUE(store.is_live(store.all_of({expr("(aa)+"), expr("(aaa)+")})));
  EXPECT_FALSE(store.is_live(store.all_of({expr("[ab]{3}"), store.complement(expr("[a-c]*"))})));
}

// Returns whether any text of a, b and another byte matches, by visiting all derivatives.
bool matches_anything(ExprStore& store, ExprId expr) {
  std::set<ExprId> seen{expr};
  for (std::vector<ExprId> todo{expr}; !todo.empty();) {
    const ExprId at = todo.back();
    todo.pop_back();
    if (store.nullable(at)) return true;
    for (const uint8_t byte : {'a', 'b', 'c'}) {
      const ExprId next = store.derivative(at, byte);
      if (seen.insert(next).second) todo.push_back(next);
    }
  }
  return false;
}

TEST(ExprStore, EmptinessOfRandomExpressions) {
  std::mt19937 rng(1);
  int num_dead = 0;
  for (int i = 0; i < 3000; ++i) {
    ExprStore store;
    std::vector<ExprId> made{store.byte('a'), store.byte('b'), ExprStore::kEmpty,
                             store.byte_range(0, 255)};
    for (int step = 0; step < 14; ++step) {
      const auto any = [&] { return made[rng() % made.size()]; };
      const ExprId next[] = {
          store.concat(any(), any()),
          store.any_of({any(), any()}),
          store.all_of({any(), any(), store.complement(any())}),
          store.all_of({any(), store.complement(any()), store.complement(any())}),
          store.complement(any()),
          store.repeat(any(), rng() % 2, 1 + rng() % 4),
          store.star(any())};
      made.push_back(next[rng() % std::size(next)]);
    }
    const bool is_live = matches_anything(store, made.back());
    ASSERT_EQ(store.is_live(made.back()), is_live) << "round " << i;
    ASSERT_TRUE(store.status().ok());
    num_dead += !is_live;
  }
  EXPECT_GT(num_dead, 300);
}

// Several patterns are searched for in a text, and only one may match. The states of all of them
// together would be too many.
TEST(ExprStore, EmptinessOfManySearchesIsFoundSoon) {
  ExprStore store;
  Encoder encoder(store, TextForm::kPlain);
  const auto search = [&](std::string_view word) {
    return *regex_expr(encoder, word, {.match = RegexMatch::kSearch});
  };
  std::vector<ExprId> parts{search("approved")};
  for (const char* word : {"rejected", "executing", "deprecated", "modification", "signing"}) {
    parts.push_back(store.complement(search(word)));
  }
  store.begin_work(20'000);
  EXPECT_TRUE(store.is_live(store.all_of(parts)));
  parts.push_back(store.complement(search("prove")));
  EXPECT_FALSE(store.is_live(store.all_of(parts)));
  EXPECT_TRUE(store.status().ok()) << store.status().message();
}

TEST(ExprStore, CountsOfWordsAreCutSooner) {
  ExprStore store;
  Encoder encoder(store, TextForm::kPlain);
  const auto expr = [&](std::string_view pattern) { return *regex_expr(encoder, pattern); };
  EXPECT_EQ(store.with_counts(expr("a{0,99}"), 32, 32), expr("a{0,32}"));
  EXPECT_EQ(store.with_counts(expr("(ab){0,99}"), 32, 32), expr("(ab){0,4}"));
  EXPECT_EQ(store.with_counts(expr("(ab){0,99}"), 32, kUnbounded), expr("(ab)*"));
  EXPECT_EQ(store.with_counts(expr("(ab){0,3}"), 32, 32), expr("(ab){0,3}"));
  EXPECT_EQ(store.with_counts(expr("(ab){0,3}"), 8, 8), expr("(ab){0,1}"));
}

}  // namespace
}  // namespace quire::grammar
