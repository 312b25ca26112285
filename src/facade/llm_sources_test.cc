// Models whose encoder reads the prompt, in the C++ API, compared with what transformers generates
// (tools/make_seq2seq_goldens.py).
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "quire/llm.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

class LlmSources : public ::testing::TestWithParam<std::string> {};

TEST_P(LlmSources, AnswersAreTheOracles) {
  const auto dir = test::source_dir() / "tests" / "goldens" / "seq2seq" / GetParam();
  const boost::json::value golden = boost::json::parse(test::read_file(dir / "golden.json"));
  auto llm = LLM::load({.model = dir.string(), .dtype = "float32", .num_threads = 2});
  ASSERT_TRUE(llm.ok()) << llm.status().message();
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = golden.at("answer_tokens").to_number<int32_t>();
  std::vector<std::string> texts, answers;
  for (const boost::json::value& one : golden.at("answers").as_array()) {
    texts.emplace_back(one.at("text").as_string());
    answers.emplace_back(one.at("answer").as_string());
  }
  const auto outputs = (*llm)->generate(texts, params);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ((*outputs)[i].choices[0].text, answers[i]) << texts[i];
    const auto streamed = (*llm)->stream(texts[i], params, nullptr);
    ASSERT_TRUE(streamed.ok()) << streamed.status().message();
    EXPECT_EQ(streamed->choices[0].text, answers[i]) << texts[i];
  }
}

// With tokenizer.json, with spiece.model alone, and with bytes.
INSTANTIATE_TEST_SUITE_P(All, LlmSources, ::testing::Values("t5", "mt5", "bart"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace quire
