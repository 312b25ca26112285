#include "facade/generation_config.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(GenerationConfig, ReadsWhatIsThereAndLeavesTheRest) {
  const auto config = parse_generation_config(
      R"({"temperature": 0.6, "top_k": 20, "eos_token_id": [151645, 151643], "transformers_version": "5"})",
      "generation_config.json");
  ASSERT_TRUE(config.ok());
  const SamplingParams params = with_defaults({}, *config);
  EXPECT_FLOAT_EQ(params.temperature, 0.6f);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.top_p, 1.0f);
  EXPECT_EQ(params.eos_token_ids, (std::vector<TokenId>{151645, 151643}));
}

TEST(GenerationConfig, OneEosIdIsAListOfOne) {
  const auto config = parse_generation_config(R"({"eos_token_id": 2})", "f");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->eos_token_ids, std::vector<TokenId>{2});
}

TEST(GenerationConfig, ErrorsNameFileAndKey) {
  for (const char* text : {R"({"temperature": "hot"})", R"({"top_k": 1.5})",
                           R"({"eos_token_id": -1})", R"({"eos_token_id": ["a"]})", "[]", "{"}) {
    const auto config = parse_generation_config(text, "generation_config.json");
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_TRUE(config.status().message().starts_with("generation_config.json: "))
        << config.status().message();
  }
}

}  // namespace
}  // namespace quire
