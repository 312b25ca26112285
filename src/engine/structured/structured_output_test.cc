// Tests answers that follow a grammar through the whole engine. Its model draws tokens by a hash,
// so that only the masks make the answers valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <thread>

#include "draft/suffix_drafter.h"
#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::Answer;
using test::Rig;
using test::tokens;

constexpr int32_t kMaxTokens = 400;

class StructuredOutputTest : public ::testing::TestWithParam<int32_t> {
 protected:
  test::RigOptions rig_options() {
    auto options = test::small_rig();
    options.tokenizer =
        test::byte_tokenizer({"{\\\"a\\\":", "true", "12", "</think>", "},{", "ab", "\\\"]"});
    options.fake.vocab_size = options.tokenizer->vocab_size();
    options.fake.max_steps_in_flight = GetParam();
    options.engine.scheduler.async_scheduling = GetParam() > 1;
    options.engine.scheduler.max_model_len = 512;
    options.engine.num_blocks = 400;
    return options;
  }

  static GenerationRequest request(Rig& rig, StructuredOutputs rule, uint64_t seed = 1) {
    auto out = test::request(tokens(9), kMaxTokens);
    out.structured_outputs = std::move(rule);
    out.params.eos_token_ids = {eos(rig)};
    out.params.ignore_eos = false;
    out.params.seed = seed;
    return out;
  }
  static TokenId eos(Rig& rig) { return rig.engine().model_info().vocab_size - 1; }

  // The engine waits for grammars without running a step, so this waits with it.
  static void run(Rig& rig) {
    while (rig.engine().has_unfinished()) {
      if (!rig.engine().step()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      rig.read();
    }
  }
  static Answer ask(Rig& rig, GenerationRequest request) {
    const auto id = rig.submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
    run(rig);
    return rig.answer(*id);
  }
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, StructuredOutputTest, ::testing::Values(1, 2));

StructuredOutputs json_schema(std::string schema) {
  return {.kind = StructuredOutputKind::kJson, .text = std::move(schema), .field = "schema"};
}
constexpr const char* kSchema = R"({"type":"object","properties":{"a":{"type":"boolean"},
  "b":{"type":"array","items":{"enum":["ab",12]},"maxItems":3},"c":{"type":"string","maxLength":5}},
  "required":["a","b","c"],"additionalProperties":false})";

TEST_P(StructuredOutputTest, AModelThatDrawsAnythingAnswersByTheSchema) {
  Rig rig(rig_options());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Answer answer = ask(rig, request(rig, json_schema(kSchema), seed));
    ASSERT_EQ(answer.finish_reason, FinishReason::kStop) << answer.text << answer.status.message();
    const auto value = boost::json::parse(answer.text).as_object();
    EXPECT_TRUE(value.at("a").is_bool());
    EXPECT_LE(value.at("b").as_array().size(), 3u);
    EXPECT_EQ(value.size(), 3u);
    EXPECT_EQ(answer.token_ids.back(), eos(rig));
  }
}

TEST_P(StructuredOutputTest, TheAnswerEndsExactlyWhereItIsComplete) {
  Rig rig(rig_options());
  StructuredOutputs rule{.kind = StructuredOutputKind::kChoice, .choices = {"a", "ab", "abcd"}};
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 30; ++seed) seen.insert(ask(rig, request(rig, rule, seed)).text);
  EXPECT_THAT(seen, testing::IsSubsetOf({"a", "ab", "abcd"}));
  EXPECT_GT(seen.size(), 1u);
}

TEST_P(StructuredOutputTest, ACrowdChangesNoToken) {
  Rig alone(rig_options()), crowd(rig_options());
  std::vector<GroupId> ids;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    auto constrained = request(crowd, json_schema(kSchema), seed);
    constrained.num_choices = 2;
    const auto id = crowd.submit(constrained);
    ASSERT_TRUE(id.ok());
    ids.push_back(*id);
    ASSERT_TRUE(crowd.submit(test::request(tokens(5, 2), 40)).ok());
  }
  run(crowd);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    auto constrained = request(alone, json_schema(kSchema), seed);
    constrained.num_choices = 2;
    const auto id = alone.submit(constrained);
    ASSERT_TRUE(id.ok());
    run(alone);
    for (size_t choice = 0; choice < 2; ++choice) {
      EXPECT_EQ(alone.answer(*id, choice).token_ids, crowd.answer(ids[seed], choice).token_ids);
    }
  }
}

// An array of one word repeats itself, so that drafts are often right; some drafts break the
// grammar.
TEST_P(StructuredOutputTest, DraftsChangeNoToken) {
  const StructuredOutputs rule =
      json_schema(R"({"type":"array","items":{"enum":["ab"]},"minItems":6,"maxItems":30})");
  auto options = rig_options();
  options.engine.drafter = std::make_shared<SuffixDrafter>(SuffixDrafter::Options{});
  options.engine.scheduler.num_speculative_tokens = 4;
  Rig plain(rig_options()), drafting(options);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Answer expected = ask(plain, request(plain, rule, seed));
    const Answer answer = ask(drafting, request(drafting, rule, seed));
    EXPECT_EQ(answer.token_ids, expected.token_ids) << answer.status.message();
  }
}

// Proposes no drafts itself.
class SilentDrafter final : public Drafter {
 public:
  void propose(std::span<DraftQuery> queries) override {
    for (DraftQuery& query : queries) query.token_ids = {};
  }
  void forget(RequestId) override {}
};

TEST_P(StructuredOutputTest, TextThatMustComeIsDrafted) {
  const StructuredOutputs rule = json_schema(
      R"({"type":"object","properties":{"a long name of a field":{"type":"boolean"},
          "and another one":{"type":"boolean"}},"additionalProperties":false,
          "required":["a long name of a field","and another one"]})");
  auto options = rig_options();
  options.engine.drafter = std::make_shared<SilentDrafter>();
  options.engine.scheduler.num_speculative_tokens = 8;
  Rig plain(rig_options()), drafting(options);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Answer expected = ask(plain, request(plain, rule, seed));
    const Answer answer = ask(drafting, request(drafting, rule, seed));
    EXPECT_EQ(answer.token_ids, expected.token_ids) << answer.status.message();
  }
  const auto stats = drafting.engine().stats();
  EXPECT_GT(stats.spec_decode_num_accepted_tokens, 6u * 30u);
}

TEST_P(StructuredOutputTest, WhatIsWrongWithAGrammarEndsItsRequestAlone) {
  Rig rig(rig_options());
  const auto bad = rig.submit(request(rig, json_schema(R"({"type":"strin"})")));
  const auto good = rig.submit(request(rig, json_schema(R"({"type":"null"})")));
  ASSERT_TRUE(bad.ok() && good.ok());
  run(rig);
  const Answer& failed = rig.answer(*bad);
  EXPECT_EQ(failed.finish_reason, FinishReason::kError);
  EXPECT_EQ(failed.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(failed.status.message(),
              testing::AllOf(testing::StartsWith("schema: "), testing::HasSubstr("strin")));
  EXPECT_EQ(rig.answer(*good).text, "null");
}

TEST_P(StructuredOutputTest, AGrammarMayBeginBehindTheReasoning) {
  Rig rig(rig_options());
  StructuredOutputs rule = json_schema(R"({"enum":[true]})");
  rule.begins_after = "</think>";
  bool any_reasoned = false;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Answer answer = ask(rig, request(rig, rule, seed));
    const size_t end = answer.text.find("</think>");
    if (end == std::string::npos) continue;  // the model did not end its text
    any_reasoned = true;
    EXPECT_EQ(answer.text.substr(end), "</think>true");
  }
  EXPECT_TRUE(any_reasoned);
}

TEST_P(StructuredOutputTest, AGrammarMayNameTheEndOfSequence) {
  Rig rig(rig_options());
  const StructuredOutputs rule{.kind = StructuredOutputKind::kStructuralTag,
                               .text = R"({"type":"structural_tag","format":{"type":"tag",
    "begin":"{","content":{"type":"json_schema","json_schema":{"enum":[true]}},"end":"}<eos>"}})",
                               .field = "tools"};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Answer answer = ask(rig, request(rig, rule, seed));
    EXPECT_EQ(answer.finish_reason, FinishReason::kStop) << answer.status.message();
    EXPECT_EQ(answer.text, "{true}");
    EXPECT_EQ(answer.token_ids.back(), eos(rig));
  }
}

TEST_P(StructuredOutputTest, WhereTheTextMayEndAnIgnoredEndChangesNothing) {
  Rig rig(rig_options());
  auto endless = request(rig, json_schema(R"({"enum":[true]})"));
  endless.params.ignore_eos = true;
  endless.params.max_tokens = 12;
  const Answer answer = ask(rig, endless);
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength) << answer.status.message();
  EXPECT_EQ(answer.text, "true");
}

TEST_P(StructuredOutputTest, WithoutAnEndOfSequenceNoGrammarCanBeKept) {
  Rig rig(rig_options());
  auto endless = request(rig, json_schema("{}"));
  endless.params.eos_token_ids.clear();
  EXPECT_EQ(rig.submit(endless).status().code(), StatusCode::kInvalidArgument);
}

grammar::GrammarSource choice(const std::string& text) {
  return {.kind = grammar::GrammarKind::kChoice, .text = {}, .choices = {text}};
}
std::unique_ptr<grammar::Vocabulary> no_vocabulary() {
  return std::make_unique<grammar::Vocabulary>(grammar::VocabularyParts{});
}
void wait_for(const GrammarTicket& ticket) {
  while (!ticket.ready()) std::this_thread::yield();
}

TEST(CompiledGrammars, AGrammarIsCompiledOnceAndSoIsAFailure) {
  CompiledGrammars grammars(no_vocabulary, {});
  for (int i = 0; i < 3; ++i) {
    for (const auto& source :
         {choice("a"), grammar::GrammarSource{.kind = grammar::GrammarKind::kRegex, .text = "("}}) {
      const auto ticket = grammars.get(source, "tenant");
      ASSERT_TRUE(ticket.ok());
      wait_for(**ticket);
      EXPECT_EQ((*ticket)->grammar().ok(), source.text.empty());
    }
  }
  EXPECT_EQ(grammars.counts().num_compiled, 1u);
  EXPECT_EQ(grammars.counts().num_failed, 1u);
  EXPECT_EQ(grammars.counts().num_hits, 4u);
}

TEST(CompiledGrammars, OneTenantsManyGrammarsLeaveAnothersAlone) {
  CompiledGrammars grammars(no_vocabulary, {.max_cache_entries = 4});
  const auto get = [&](const std::string& text, const std::string& tenant) {
    const auto ticket = grammars.get(choice(text), tenant);
    ASSERT_TRUE(ticket.ok());
    wait_for(**ticket);
  };
  get("mine", "quiet");
  for (int i = 0; i < 20; ++i) get(std::to_string(i), "loud");
  EXPECT_EQ(grammars.counts().num_entries, 4u);
  get("mine", "quiet");
  EXPECT_EQ(grammars.counts().num_hits, 1u);
}

TEST(CompiledGrammars, TooManyThatWaitAreRefused) {
  CompiledGrammars grammars(no_vocabulary, {.num_threads = 0, .max_queued = 2});
  EXPECT_TRUE(grammars.get(choice("a"), "x").ok());
  EXPECT_TRUE(grammars.get(choice("b"), "x").ok());
  EXPECT_EQ(grammars.get(choice("c"), "y").status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quire
