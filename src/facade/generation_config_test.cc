#include "facade/generation_config.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(GenerationConfig, ReadsWhatIsThereAndLeavesTheRest) {
  const auto config = parse_generation_config(
      R"({"temperature": 0.6, "top_k": 20, "eos_token_id": [151645, 151643], "transformers_version": "5"})",
      "generation_config.json");
  ASSERT_TRUE(config.ok());
  const SamplingParams params = with_defaults({}, config->sampling);
  EXPECT_FLOAT_EQ(params.temperature, 0.6f);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.top_p, 1.0f);
  EXPECT_EQ(config->eos_token_ids, (std::vector<TokenId>{151645, 151643}));
}

TEST(GenerationConfig, OneEosIdIsAListOfOne) {
  const auto config = parse_generation_config(R"({"eos_token_id": 2})", "f");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->eos_token_ids, std::vector<TokenId>{2});
}

TEST(GenerationConfig, DefaultsThatNoRequestMayHaveAreLeftOut) {
  SamplingDefaults defaults =
      parse_generation_config(R"({"top_p": 0, "temperature": 3, "top_k": -2, "min_p": -0.5,
                                  "repetition_penalty": 1e300, "max_new_tokens": 0})",
                              "f")
          .value()
          .sampling;
  ASSERT_FALSE(with_defaults({}, defaults).validate(10, 0).ok());
  EXPECT_EQ(drop_invalid_defaults(defaults),
            "temperature: expected a number in [0, 2], got 3; "
            "top_p: expected a number in (0, 1], got 0; "
            "top_k: expected 0 or -1 (off) or more, got -2; "
            "min_p: expected a number in [0, 1], got -0.5; "
            "repetition_penalty: expected a finite number > 0, got inf; "
            "max_new_tokens: expected a number >= 1, got 0");
  EXPECT_TRUE(with_defaults({}, defaults).validate(10, 0).ok());
  EXPECT_FALSE(defaults.max_tokens.has_value());

  defaults = parse_generation_config(R"({"top_p": 0.0, "temperature": 0.5, "top_k": -1})", "f")
                 .value()
                 .sampling;
  EXPECT_EQ(drop_invalid_defaults(defaults), "top_p: expected a number in (0, 1], got 0");
  EXPECT_EQ(defaults.temperature, 0.5f);
  EXPECT_EQ(defaults.top_k, -1);
  EXPECT_EQ(drop_invalid_defaults(defaults), "");
}

TEST(GenerationConfig, ErrorsNameFileAndKey) {
  for (const char* text : {R"({"temperature": "hot"})", R"({"top_k": 1.5})",
                           R"({"eos_token_id": -1})", R"({"eos_token_id": ["a"]})", "[]", "{"}) {
    const auto config = parse_generation_config(text, "generation_config.json");
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_TRUE(config.status().message().starts_with("generation_config.json: "))
        << config.status().message();
  }
  EXPECT_FALSE(parse_eos_token_ids(R"({"eos_token_id": 1099511627776})", "config.json").ok());
  EXPECT_EQ(*parse_eos_token_ids(R"({"eos_token_id": 2, "top_k": "x"})", "config.json"),
            std::vector<TokenId>{2});
}

}  // namespace
}  // namespace quire
