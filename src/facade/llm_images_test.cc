// Images in the C++ API: LLM::chat with messages that have images.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quire/llm.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

constexpr size_t kTokensPerImage = 25;

std::string vision_golden(const std::string& name) {
  return (test::source_dir() / "tests/goldens/vision" / name).string();
}

std::string image(const std::string& name) {
  return test::read_file(test::source_dir() / "tests/goldens/vision/images" / name);
}

SamplingParams greedy() {
  SamplingParams params;
  params.max_tokens = 8;
  params.temperature = 0;
  params.ignore_eos = true;
  return params;
}

TEST(LlmImages, ArePartOfTheQuestionTheyComeWith) {
  const auto llm = LLM::load({.model = vision_golden("llava")});
  ASSERT_TRUE(llm.ok()) << llm.status().message();
  EXPECT_TRUE((*llm)->info().reads_images);
  const auto ask = [&](std::vector<std::string> images) {
    auto output = (*llm)->chat({{"user", "what is it", std::move(images)}}, greedy());
    EXPECT_TRUE(output.ok()) << output.status().message();
    return std::move(output).value();
  };
  const RequestOutput none = ask({}), wide = ask({image("wide.png")}),
                      tall = ask({image("tall.png")});
  EXPECT_EQ(wide.prompt_token_ids.size(), none.prompt_token_ids.size() + kTokensPerImage);
  EXPECT_NE(wide.choices[0].token_ids, tall.choices[0].token_ids);
  EXPECT_EQ(ask({image("wide.png")}).choices[0].token_ids, wide.choices[0].token_ids);
  EXPECT_EQ(ask({image("wide.png"), image("tall.png")}).prompt_token_ids.size(),
            none.prompt_token_ids.size() + 2 * kTokensPerImage);
}

TEST(LlmImages, ATextStandsInItsPlaceWhereATemplateWantsParts) {
  const auto llm = LLM::load({.model = vision_golden("llava")});
  ASSERT_TRUE(llm.ok()) << llm.status().message();
  const auto ids = (*llm)->encode_chat({{"user", "what is it"}});
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  EXPECT_NE((*llm)->decode(*ids).find("what is it"), std::string::npos) << (*llm)->decode(*ids);
}

TEST(LlmImages, AreRefusedWhereNobodyReadsThem) {
  const auto llm = LLM::load({});
  ASSERT_TRUE(llm.ok()) << llm.status().message();
  EXPECT_FALSE((*llm)->info().reads_images);
  const auto output = (*llm)->chat({{"user", "what is it", {image("wide.png")}}}, greedy());
  EXPECT_NE(output.status().message().find("reads no images"), std::string::npos)
      << output.status().message();
  const auto vision = LLM::load({.model = vision_golden("llava")});
  ASSERT_TRUE(vision.ok());
  EXPECT_FALSE((*vision)->chat({{"user", "?", {"no picture"}}}, greedy()).ok());
}

}  // namespace
}  // namespace quire
