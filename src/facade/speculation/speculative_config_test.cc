#include "facade/speculation/speculative_config.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

std::string error_of(std::string_view text) {
  return parse_speculative_config(text).status().message();
}

TEST(SpeculativeConfig, DefaultsAreThoseOfVllm) {
  const auto suffix = parse_speculative_config(R"({"method":"suffix"})");
  ASSERT_TRUE(suffix.ok()) << suffix.status().message();
  EXPECT_EQ(suffix->method, SpeculativeMethod::kSuffix);
  EXPECT_EQ(suffix->num_speculative_tokens, 24);
  EXPECT_EQ(suffix->suffix.max_spec_factor, 1.0);

  const auto ngram = parse_speculative_config(R"({"method":"ngram","num_speculative_tokens":3})");
  ASSERT_TRUE(ngram.ok()) << ngram.status().message();
  EXPECT_EQ(ngram->num_speculative_tokens, 3);
  EXPECT_EQ(ngram->ngram.prompt_lookup_min, 5);
  EXPECT_EQ(ngram->ngram.prompt_lookup_max, 5);
}

TEST(SpeculativeConfig, NothingSaidIsTheSuffixDrafterAndNoneIsNobody) {
  const auto suffix = parse_speculative_config(R"({"method":"suffix"})");
  ASSERT_TRUE(suffix.ok());
  const SpeculativeConfig unsaid = default_speculative_config();
  EXPECT_EQ(unsaid.method, suffix->method);
  EXPECT_EQ(unsaid.num_speculative_tokens, suffix->num_speculative_tokens);
  EXPECT_EQ(unsaid.weigh_drafts, suffix->weigh_drafts);
  EXPECT_EQ(unsaid.suffix.max_spec_factor, suffix->suffix.max_spec_factor);
  EXPECT_FALSE(asks_for_drafts(""));
  EXPECT_FALSE(asks_for_drafts("none"));
  EXPECT_TRUE(asks_for_drafts(R"({"method":"suffix"})"));
}

TEST(SpeculativeConfig, OneBoundOfAnNgramIsTheOthersDefault) {
  const auto max = parse_speculative_config(
      R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4})");
  ASSERT_TRUE(max.ok());
  EXPECT_EQ(max->ngram.prompt_lookup_min, 4);
  EXPECT_EQ(max->ngram.prompt_lookup_max, 4);
  const auto min = parse_speculative_config(
      R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":2})");
  ASSERT_TRUE(min.ok());
  EXPECT_EQ(min->ngram.prompt_lookup_max, 2);
}

TEST(SpeculativeConfig, ErrorsNameTheKey) {
  EXPECT_NE(error_of("[1]").find("a JSON object"), std::string::npos);
  EXPECT_NE(error_of("{").find("a JSON object"), std::string::npos);
  EXPECT_NE(error_of("{}").find("method: expected"), std::string::npos);
  EXPECT_NE(error_of(R"({"method":"lookahead"})").find("\"lookahead\""), std::string::npos);
  EXPECT_NE(error_of(R"({"method":"medusa"})").find("model: expected the path"), std::string::npos);
  EXPECT_NE(error_of(R"({"method":"ngram"})").find("num_speculative_tokens"), std::string::npos);
  EXPECT_NE(error_of(R"({"method":"suffix","num_speculative_tokens":0})").find("1 to 64, got 0"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"method":"suffix","revision":"x"})").find("got revision"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"method":"suffix","suffix_decoding_max_spec_factor":-1})")
                .find("suffix_decoding_max_spec_factor"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":4,)"
                     R"("prompt_lookup_max":3})")
                .find("prompt_lookup_max"),
            std::string::npos);
  EXPECT_EQ(error_of(R"({"method":"suffix","rejection_sample_method":"standard"})"), "");
}

TEST(SpeculativeConfig, ModelsThatDraft) {
  const auto model = parse_speculative_config(
      R"({"method":"draft_model","model":"/models/small","num_speculative_tokens":4})");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_TRUE(model->runs_a_model());
  EXPECT_EQ(model->model, "/models/small");
  const auto self = parse_speculative_config(
      R"({"method":"self","num_hidden_layers":2,"num_speculative_tokens":4})");
  ASSERT_TRUE(self.ok()) << self.status().message();
  EXPECT_EQ(self->num_hidden_layers, 2);
  EXPECT_NE(
      error_of(R"({"method":"draft_model","num_speculative_tokens":4})").find("model: expected"),
      std::string::npos);
  EXPECT_NE(error_of(R"({"method":"draft_model","model":"x"})").find("num_speculative_tokens"),
            std::string::npos);
  const auto copy = parse_speculative_config(R"({"method":"self","num_speculative_tokens":4})");
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_EQ(copy->num_hidden_layers, 0);
  for (const char* wrong : {"0", "-1", "\"all\"", "1.5"}) {
    const std::string text = fmt::format(
        R"({{"method":"self","num_hidden_layers":{},"num_speculative_tokens":4}})", wrong);
    EXPECT_NE(error_of(text).find("num_hidden_layers: expected"), std::string::npos) << wrong;
  }
}

TEST(SpeculativeConfig, DraftersOfHiddenStates) {
  const struct {
    const char* name;
    SpeculativeMethod method;
  } kCases[] = {{"medusa", SpeculativeMethod::kMedusa},
                {"eagle", SpeculativeMethod::kEagle},
                {"eagle3", SpeculativeMethod::kEagle3}};
  for (const auto& [name, method] : kCases) {
    const auto config = parse_speculative_config(
        fmt::format(R"({{"method":"{}","model":"/heads","num_speculative_tokens":4}})", name));
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->method, method);
    EXPECT_TRUE(config->reads_hidden_states());
    EXPECT_EQ(config->model, "/heads");
  }
  for (const char* name : {"mtp", "deepseek_mtp", "glm4_moe_mtp", "qwen3_next_mtp"}) {
    const auto config = parse_speculative_config(fmt::format(R"({{"method":"{}"}})", name));
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->method, SpeculativeMethod::kMtp);
    EXPECT_EQ(config->num_speculative_tokens, 0);  // the drafter's files decide
  }
  EXPECT_NE(error_of(R"({"method":"mtp","model":"x"})").find("model: expected none with mtp"),
            std::string::npos);
}

TEST(SpeculativeConfig, LimitsByTheNumberOfRequests) {
  const auto config = parse_speculative_config(
      R"({"method":"suffix","num_speculative_tokens_per_batch_size":[[1,64,3],[65,128,1],[129,512,0]],)"
      R"("enable_adaptive_verification":false})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  ASSERT_EQ(config->limits.size(), 3u);
  EXPECT_EQ(config->limits[1].num_requests, 65);
  EXPECT_EQ(config->limits[2].max_drafts, 0);
  EXPECT_FALSE(config->weigh_drafts);
  for (const char* wrong : {"3", "[3]", "[[1,2]]", "[[2,1,3]]", "[[1,4,3],[4,5,2]]", "[[1,2,65]]",
                            "[[1,2,-1]]", "[[1,2.5,1]]", "[[1,9999999999,1]]"}) {
    const std::string text =
        std::string(R"({"method":"suffix","num_speculative_tokens_per_batch_size":)") + wrong + "}";
    EXPECT_NE(error_of(text).find("[[first, last, drafts]"), std::string::npos) << wrong;
  }
  EXPECT_NE(
      error_of(R"({"method":"suffix","enable_adaptive_verification":1})").find("true or false"),
      std::string::npos);
}

}  // namespace
}  // namespace quire
