#include "grammar/bench/mask_bench.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/test_data.h"
#include "tokenizer/json/tokenizer_json.h"

namespace quire::grammar {
namespace {

// Returns a byte-level tokenizer whose tokens are the printable ASCII characters.
std::unique_ptr<Tokenizer> ascii_tokenizer() {
  std::string vocab;
  int id = 0;
  for (char c = '!'; c <= '~'; ++c) {
    vocab += fmt::format("{}\"{}{}\": {}", id == 0 ? "" : ", ", c == '"' || c == '\\' ? "\\" : "",
                         c, id);
    ++id;
  }
  vocab += fmt::format(", \"\u0120\": {}", id);  // the blank
  auto tokenizer = tokenizer_from_json(
      R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "ByteLevel",
          "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
          "post_processor": null, "decoder": {"type": "ByteLevel"},
          "model": {"type": "BPE", "merges": [], "vocab": {)" +
      vocab + "}}}");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

TEST(MaskBench, CountsWhatIsJudgedWrongly) {
  const auto tokenizer = ascii_tokenizer();
  ASSERT_NE(tokenizer, nullptr);
  const Vocabulary vocabulary(*tokenizer, {}, 0);
  MaskBenchReport report;
  for (const char* line : {
           R"({"name":"right","schema":{"type":"integer"},
              "tests":[{"valid":true,"data":5},{"valid":false,"data":"5"}]})",
           R"({"name":"no tests","schema":{},"tests":[]})",
           R"({"name":"refused","schema":{"unevaluatedItems":false},"tests":[]})",
           R"({"name":"wrong","schema":{"type":"object"},
              "tests":[{"valid":false,"data":{"a": 1.0}},{"valid":true,"data":[]}]})",
           R"({"name":"order","schema":{"type":"object","properties":{"a":{},"b":{}}},
              "tests":[{"valid":true,"data":{"b": 1, "a": 2}}]})",
       }) {
    ASSERT_TRUE(run_mask_bench(line, *tokenizer, vocabulary, {}, report).ok());
  }
  EXPECT_EQ(report.num_schemas, 5);
  EXPECT_EQ(report.num_with_tests, 3);
  EXPECT_EQ(report.num_passing, 2);
  EXPECT_EQ(report.num_passing_with_tests, 1);
  EXPECT_EQ(report.num_not_compiled, 1);
  EXPECT_EQ(report.num_false_accepts, 1);
  EXPECT_EQ(report.num_false_rejects, 2);
  EXPECT_EQ(report.num_refused_by_order, 1);
  EXPECT_EQ(report.notes.size(), 4u);
  EXPECT_FALSE(run_mask_bench("[]", *tokenizer, vocabulary, {}, report).ok());
}

// Runs every 40th real schema; `quire bench grammar` runs all of them.
TEST(MaskBench, ASampleHasNoFalseAccepts) {
  QUIRE_REQUIRE_SHARED(file, "json/maskbench_dev.jsonl.gz");
  QUIRE_REQUIRE_SHARED(tokenizer_file, "tokenizers/qwen2/tokenizer.json");
  const auto tokenizer = tokenizer_from_json(quire::test::read_file(tokenizer_file));
  ASSERT_TRUE(tokenizer.ok());
  const Vocabulary vocabulary(**tokenizer, {}, 0);
  MaskBenchReport report;
  const std::string lines = quire::test::read_file(file);
  size_t index = 0;
  for (size_t at = 0; at < lines.size(); ++index) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    if (index % 40 == 7) {
      const auto line = std::string_view(lines).substr(at, end - at);
      ASSERT_TRUE(run_mask_bench(line, **tokenizer, vocabulary, {}, report).ok());
    }
    at = end + 1;
  }
  EXPECT_EQ(report.num_false_accepts, 0) << fmt::format("{}", report.notes.size());
  EXPECT_EQ(report.num_budget_errors, 0);
  EXPECT_EQ(report.num_false_rejects, report.num_refused_by_order);
  for (const std::string& note : report.notes) fmt::print("{}\n", note.substr(0, 400));
  fmt::print(
      "MaskBench sample: {} of {} schemas pass ({} not compiled), {} false accepts, {} false "
      "rejects\n",
      report.num_passing, report.num_schemas, report.num_not_compiled, report.num_false_accepts,
      report.num_false_rejects);
}

}  // namespace
}  // namespace quire::grammar
