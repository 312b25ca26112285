// These tests compare the matcher with brute force and with itself, over several kinds of grammars.
#include "grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/testing/test_vocabularies.h"

namespace quire::grammar {
namespace {

using test::accepts;

std::shared_ptr<const Grammar> compiled(const GrammarSource& source) {
  auto grammar = compile(source);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  return grammar.ok() ? *grammar : nullptr;
}
std::shared_ptr<const Grammar> ebnf(std::string text) {
  return compiled({GrammarKind::kEbnf, std::move(text)});
}
std::shared_ptr<const Grammar> regex(std::string text) {
  return compiled({GrammarKind::kRegex, std::move(text)});
}

struct Case {
  const char* name;
  GrammarSource source;
  const char* alphabet;
};
std::vector<Case> cases() {
  using enum GrammarKind;
  return {
      {"regex", {kRegex, "(ab|a)b{2,4}[a-c]*"}, "abc"},
      {"utf8", {kRegex, "[\\u00e9-\\u20ac]{1,3}x"}, "\xC3\xA9\xE2\x82\xACx"},
      {"choice", {kChoice, "", {"a", "ab", "abc", "b\xC3\xA9"}}, "abc\xC3\xA9"},
      {"prefixes", {kEbnf, "root ::= (\"a\" | \"ab\") \"b\" \"c\""}, "abc"},
      {"left", {kEbnf, "root ::= root \"+\" t | t\nt ::= [a-b]+ | \"(\" root \")\""}, "ab+()"},
      {"right", {kEbnf, "root ::= \"a\" root | \"b\" | \"\""}, "ab"},
      {"ambiguous", {kEbnf, "root ::= root root | \"a\" | \"ab\""}, "ab"},
      {"indirect", {kEbnf, "root ::= x \"a\" | \"b\"\nx ::= root \"c\" | x \"d\" | \"\""}, "abcd"},
      {"counted", {kEbnf, "root ::= (\"a\" x?){2,3} \"b\"\nx ::= \"(\" root \")\""}, "ab()"},
      {"object",
       {kJsonSchema,
        R"({"properties":{"a":{"type":"integer","minimum":3,"maximum":120},"b":{"enum":["x","y"]}},)"
        R"("required":["b"],"type":"object"})"},
       "ab{}\":, xy0123"},
      {"array",
       {kJsonSchema, R"({"type":"array","items":{"type":["string","null"],"maxLength":3},
        "minItems":1,"maxItems":3})"},
       "nul[],\" \\u00\xC3\xA9"},
      {"search", {kJsonSchema, R"({"type":"string","pattern":"ab+a|ba$"})"}, "ab\"\\ u0 "},
      {"counted_text", {kJsonSchema, R"({"type":"string","maxLength":11})"}, "ab\"\\n"},
      {"counted_groups",
       {kJsonSchema, R"({"type":"string","pattern":"^(?:a+b+){0,9}a$"})"},
       "ab\"\\"},
      {"words_and_characters",
       {kJsonSchema, R"({"type":"string","pattern":"^(?:\\S+\\s+){0,9}\\S+$","maxLength":300})"},
       "ab \"\\"},
      {"one_of_searches",
       {kJsonSchema,
        R"({"oneOf":[{"type":"string","pattern":"ab"},{"type":"string","pattern":"ba"},)"
        R"({"type":"string","pattern":"bb"}]})"},
       "ab\""},
      {"any", {kJsonObject}, "{}[]\":,1e.-tru"},
      {"unique",
       {kJsonSchema, R"({"type":"array","items":{"enum":["a",1,null]},"uniqueItems":true})"},
       "nul[],\"a1"},
      {"any_order",
       {kJsonSchema,
        R"({"properties":{"a":{"const":1},"b":{"type":"null"}},"required":["b"],"type":"object"})",
        {},
        {.any_order = true}},
       "ab{}\":, 1nul"},
      {"lark",
       {kLark, "start: A (\",\" A)* B?\nA: /[ab]+/ & ~\"ab\"\nB: \"c\"~2..3\n%ignore \" \"\n"},
       "abc, "},
      {"tags",
       {kStructuralTag, R"({"format":{"type":"triggered_tags","triggers":["<a"],"tags":[
        {"begin":"<ab","content":{"type":"any_text"},"end":">"}]}})"},
       "<ab>"},
  };
}

// These tests read random texts: each step takes a random allowed token, and a complete text
// sometimes ends.
class GrammarProperties : public testing::TestWithParam<size_t> {};

TEST_P(GrammarProperties, MaskEqualsBruteForceAfterAnySplitAndRollback) {
  const Case test_case = cases()[GetParam()];
  SCOPED_TRACE(test_case.name);
  const auto grammar = compiled(test_case.source);
  ASSERT_NE(grammar, nullptr);
  std::mt19937_64 rng(GetParam() + 1);
  const Vocabulary vocabulary(test::random_vocabulary(rng, test_case.alphabet, 60));
  std::vector<uint32_t> row(vocabulary.mask_words());
  for (int text_index = 0; text_index < 12; ++text_index) {
    Matcher matcher(grammar, vocabulary);
    std::string text;
    std::vector<std::vector<uint32_t>> rows;
    for (int step = 0; step < 14 && !matcher.is_finished(); ++step) {
      ASSERT_TRUE(matcher.fill_mask(row).ok());
      ASSERT_EQ(row, test::brute_force_mask(matcher, vocabulary)) << "after '" << text << "'";
      rows.push_back(row);
      // The same text, read as one token, has the same future.
      Matcher whole(grammar, vocabulary);
      ASSERT_TRUE(whole.accept_bytes(text));
      std::vector<uint32_t> other(row.size());
      ASSERT_TRUE(whole.fill_mask(other).ok());
      ASSERT_EQ(row, other) << "after '" << text << "'";
      const std::string forced = matcher.forced_bytes(16);
      ASSERT_TRUE(whole.accept_bytes(forced));
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < vocabulary.padded_size(); ++id) {
        if (test::is_allowed(row, id)) allowed.push_back(id);
      }
      ASSERT_FALSE(allowed.empty()) << "a dead end after '" << text << "'";
      for (const TokenId id : allowed) {
        const std::string_view bytes = vocabulary.token_bytes(id);
        const size_t common = std::min(bytes.size(), forced.size());
        EXPECT_EQ(bytes.substr(0, common), forced.substr(0, common));
      }
      const TokenId id = allowed[rng() % allowed.size()];
      ASSERT_TRUE(matcher.accept(id));
      text += vocabulary.token_bytes(id);
    }
    // After rolling back to a random place, the mask must be what it was there.
    const size_t back = rng() % (matcher.num_tokens() + 1);
    matcher.rollback(back);
    if (matcher.num_tokens() < rows.size()) {
      ASSERT_TRUE(matcher.fill_mask(row).ok());
      EXPECT_EQ(row, rows[matcher.num_tokens()]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GrammarProperties, testing::Range<size_t>(0, 19),
                         [](const auto& info) { return std::string(cases()[info.param].name); });

TEST(Grammar, ATerminalThatIsThePrefixOfAnotherIsNotLost) {
  const auto grammar = ebnf("root ::= (\"a\" | \"ab\") \"b\"");
  EXPECT_TRUE(accepts(grammar, "ab"));
  EXPECT_TRUE(accepts(grammar, "abb"));
  EXPECT_FALSE(accepts(grammar, "a"));
  EXPECT_FALSE(accepts(grammar, "abbb"));
}

TEST(Grammar, EndOfSequenceExactlyAtCompletion) {
  std::mt19937_64 rng(1);
  const Vocabulary vocabulary(test::random_vocabulary(rng, "ab", 4));
  const TokenId eos = vocabulary.eos_ids().front();
  Matcher matcher(compiled({GrammarKind::kChoice, "", {"a", "ab"}}), vocabulary);
  std::vector<uint32_t> row(vocabulary.mask_words());
  ASSERT_TRUE(matcher.fill_mask(row).ok());
  EXPECT_FALSE(test::is_allowed(row, eos));
  EXPECT_FALSE(matcher.accept(eos));
  ASSERT_TRUE(matcher.accept('a'));
  ASSERT_TRUE(matcher.fill_mask(row).ok());
  EXPECT_TRUE(test::is_allowed(row, eos));
  EXPECT_TRUE(test::is_allowed(row, 'b'));
  ASSERT_TRUE(matcher.accept(eos));
  EXPECT_TRUE(matcher.is_finished());
  EXPECT_FALSE(matcher.accept('b'));
  ASSERT_TRUE(matcher.fill_mask(row).ok());
  EXPECT_THAT(row, testing::Each(0U));
  matcher.rollback(1);
  EXPECT_TRUE(matcher.accept('b'));
}

TEST(Grammar, AVocabularyThatCannotGoOnIsAnErrorNotAnEmptyMask) {
  VocabularyParts parts;
  parts.token_bytes = {"a"};
  parts.padded_size = 1;
  const Vocabulary vocabulary(std::move(parts));
  Matcher matcher(regex("ab"), vocabulary);
  ASSERT_TRUE(matcher.accept(0));
  std::vector<uint32_t> row(1);
  EXPECT_EQ(matcher.fill_mask(row).code(), StatusCode::kInternal);
}

TEST(Grammar, ForcedBytes) {
  const Vocabulary vocabulary(VocabularyParts{});
  Matcher matcher(compiled({GrammarKind::kJsonSchema,
                            R"({"type":"object","properties":{"name":{"const":"x"}},
        "required":["name"],"additionalProperties":false})",
                            {},
                            {.whitespace = Whitespace::kCompact}}),
                  vocabulary);
  EXPECT_EQ(matcher.forced_bytes(100), R"({"name":"x"})");
  EXPECT_EQ(matcher.forced_bytes(3), R"({"n)");
}

TEST(Grammar, LongCountsAndDeepNestingStayCheap) {
  EXPECT_TRUE(accepts(regex("a{0,100000}"), std::string(5000, 'a')));
  const auto nested = ebnf("root ::= \"[\" root \"]\" | \"x\"");
  EXPECT_TRUE(accepts(nested, std::string(2000, '[') + "x" + std::string(2000, ']')));
}

// Bounds of words and of characters together have a state for each pair of remaining counts.
TEST(Grammar, TextsOfManyWordsStayWithinTheBudget) {
  const auto grammar = compiled(
      {GrammarKind::kJsonSchema,
       R"json({"type":"string","pattern":"^$|(^(?:\\S+\\s+){0,99}\\S+$)","maxLength":5000})json"});
  std::mt19937_64 rng(1);
  const Vocabulary vocabulary(test::random_vocabulary(rng, "etaoin ", 3000));
  Matcher matcher(grammar, vocabulary);
  std::vector<uint32_t> row(vocabulary.mask_words());
  ASSERT_TRUE(matcher.accept_bytes("\"An"));
  for (int word = 0; word < 95; ++word) {
    for (const char* part : {" answ", "er"}) {
      ASSERT_TRUE(matcher.accept_bytes(part)) << word;
      ASSERT_TRUE(matcher.fill_mask(row).ok()) << word;
    }
  }
  EXPECT_FALSE(is_crowded(*grammar));
}

// A grammar with one text whose masks are cheap, and one whose masks take many expressions.
constexpr const char* kCheapAndCostly = "b+|a[ab]*(a[ab]{9}|b[ab]{7}a)+";

bool is_over_budget(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument &&
         status.message().starts_with("grammar budget: expected at most ");
}

TEST(Grammar, AMaskBeyondALimitFailsAlone) {
  std::mt19937_64 rng(1);
  for (const GrammarLimits& limits :
       {GrammarLimits{.max_mask_expressions = 30}, GrammarLimits{.max_mask_steps = 290}}) {
    const Vocabulary vocabulary(test::random_vocabulary(rng, "ab", 300));
    const auto grammar = compile({GrammarKind::kRegex, kCheapAndCostly}, limits);
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    Matcher costly(*grammar, vocabulary), cheap(*grammar, vocabulary);
    std::vector<uint32_t> row(vocabulary.mask_words());
    ASSERT_TRUE(costly.accept_bytes("a"));
    const Status failed = costly.fill_mask(row);
    EXPECT_TRUE(is_over_budget(failed)) << failed.message();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(cheap.accept_bytes("b"));
      const Status filled = cheap.fill_mask(row);
      EXPECT_TRUE(filled.ok()) << filled.message();
      EXPECT_EQ(row, test::brute_force_mask(cheap, vocabulary));
    }
    costly.rollback(1);
    ASSERT_TRUE(costly.accept_bytes("b"));
    EXPECT_TRUE(costly.fill_mask(row).ok()) << "after a path that is not taken";
  }
}

TEST(Grammar, ATokenBeyondALimitIsRefusedWithTheLimit) {
  std::mt19937_64 rng(1);
  const Vocabulary vocabulary(test::random_vocabulary(rng, "ab", 10));
  const auto grammar =
      compile({GrammarKind::kRegex, kCheapAndCostly}, {.max_mask_expressions = 30});
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  Matcher matcher(*grammar, vocabulary), other(*grammar, vocabulary);
  std::vector<uint32_t> row(vocabulary.mask_words());
  const std::string costly = "aabaabbabaaabbbabaababbbbaabbabaaabaabbb";
  EXPECT_FALSE(matcher.accept_bytes(costly));
  EXPECT_EQ(matcher.num_tokens(), 0U);
  const Status failed = matcher.fill_mask(row);
  EXPECT_TRUE(is_over_budget(failed)) << failed.message();
  EXPECT_TRUE(other.accept_bytes("bb"));
  EXPECT_TRUE(other.fill_mask(row).ok());
  matcher.rollback(0);
  ASSERT_TRUE(matcher.accept_bytes("bb"));
  EXPECT_TRUE(matcher.fill_mask(row).ok());
  matcher.rollback(1);
  for (const char byte : costly) ASSERT_TRUE(matcher.accept_bytes(std::string(1, byte)));
}

TEST(Grammar, AGrammarThatIsFullServesTheTextsThatItKnows) {
  std::mt19937_64 rng(1);
  const Vocabulary vocabulary(test::random_vocabulary(rng, "ab", 10));
  const auto grammar = compile({GrammarKind::kRegex, kCheapAndCostly}, {.max_lexer_states = 12});
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  Matcher known(*grammar, vocabulary), unknown(*grammar, vocabulary);
  std::vector<uint32_t> row(vocabulary.mask_words());
  ASSERT_TRUE(known.accept_bytes("b"));
  ASSERT_TRUE(known.fill_mask(row).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(unknown.accept_bytes("aabaabbabaaabbbabaababbbbaabbabaaabaabbb"));
    const Status failed = unknown.fill_mask(row);
    EXPECT_TRUE(is_over_budget(failed)) << failed.message();
    EXPECT_TRUE(known.accept_bytes("b"));
    EXPECT_TRUE(known.fill_mask(row).ok());
  }
  EXPECT_TRUE(is_crowded(**grammar));
}

TEST(Grammar, HostileGrammarsAreRefused) {
  const auto message = [](const GrammarSource& source) {
    const auto grammar = compile(source);
    return grammar.ok() ? std::string("compiled") : grammar.status().message();
  };
  const std::string open(5000, '('), close(5000, ')');
  EXPECT_THAT(message({GrammarKind::kRegex, open + "a" + close}), testing::HasSubstr("too deep"));
  EXPECT_THAT(message({GrammarKind::kEbnf, "root ::= " + open + "\"a\"" + close}),
              testing::HasSubstr("too deep"));
  EXPECT_THAT(message({GrammarKind::kEbnf, "root ::= root"}), testing::HasSubstr("nothing"));
  EXPECT_THAT(message({GrammarKind::kEbnf, "root ::= x"}), testing::HasSubstr("'x'"));
  EXPECT_THAT(message({GrammarKind::kChoice}), testing::HasSubstr("at least one"));
  EXPECT_THAT(message({GrammarKind::kJsonSchema, "false"}), testing::HasSubstr("nothing"));
  EXPECT_THAT(message({GrammarKind::kJsonSchema, std::string(200000, '[')}),
              testing::HasSubstr("JSON"));
  EXPECT_THAT(message({GrammarKind::kRegex, std::string(2 << 20, 'a')}),
              testing::HasSubstr("bytes"));
}

// Without limits, compiling each of these would take hours or all memory.
TEST(Grammar, AttacksAreRefusedOrTaken) {
  std::string refs = R"({"$defs":{"a0":{"type":"string"})";
  for (int i = 1; i < 40; ++i) {
    refs += fmt::format(
        R"(,"a{0}":{{"anyOf":[{{"$ref":"#/$defs/a{1}"}},{{"$ref":"#/$defs/a{1}"}}]}})", i, i - 1);
  }
  refs += R"(},"$ref":"#/$defs/a39"})";
  std::string patterns = R"({"type":"string","allOf":[)";
  for (int i = 0; i < 12; ++i) {
    patterns += fmt::format(R"({}{{"not":{{"pattern":"[a-m]{}.*{}[x-z].*[0-9]{{3}}"}}}})",
                            i > 0 ? "," : "", i, i);
  }
  patterns += "]}";
  std::string nested = "a";
  for (int i = 0; i < 40; ++i) nested = "(" + nested + "{1,999})";
  const GrammarSource attacks[] = {
      {GrammarKind::kRegex, nested},
      {GrammarKind::kRegex, "(a*)*(a|a)*(a+)+b"},
      {GrammarKind::kRegex, std::string(3000, '[') + "a"},
      {GrammarKind::kEbnf, "root ::= (\"a\"*)*"},
      {GrammarKind::kEbnf, "root ::= x x x\nx ::= x x | root | \"\" | \"a\""},
      {GrammarKind::kJsonSchema, refs},
      {GrammarKind::kJsonSchema, patterns},
      {GrammarKind::kJsonSchema, R"({"type":"string","maxLength":999999999999})"},
      {GrammarKind::kJsonSchema,
       R"({"type":"array","minItems":4000000000,"items":{"type":"null"}})"},
      {GrammarKind::kJsonSchema, R"({"type":"number","multipleOf":0.0000000000000000012345})"}};
  for (const GrammarSource& attack : attacks) {
    const auto grammar = compile(attack);
    constexpr size_t kMaxBytes = size_t{256} << 20;
    EXPECT_LT(grammar.ok() ? memory_bytes(**grammar) : 0, kMaxBytes) << attack.text.substr(0, 200);
  }
}

}  // namespace
}  // namespace quire::grammar
