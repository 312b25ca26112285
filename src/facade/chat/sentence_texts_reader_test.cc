#include "facade/chat/sentence_texts_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

ModelFiles files_of(const std::vector<std::pair<std::string, std::string_view>>& texts) {
  std::vector<std::pair<std::string, std::span<const std::byte>>> blobs;
  for (const auto& [name, text] : texts) blobs.emplace_back(name, std::as_bytes(std::span(text)));
  return ModelFiles::from_memory(std::move(blobs));
}

TEST(SentenceTexts, HaveTheirPrompts) {
  const auto texts = read_sentence_texts(files_of(
      {{"config_sentence_transformers.json",
        R"({"prompts":{"query":"q: ","document":"d: "},"default_prompt_name":"document"})"},
       {"sentence_bert_config.json",
        R"({"processing_kwargs":{"chat_template":{"add_generation_prompt":true}}})"}}));
  ASSERT_TRUE(texts.ok()) << texts.status().message();
  EXPECT_EQ(texts->of_query(), "q: ");
  EXPECT_EQ(texts->by_default(), "d: ");
  EXPECT_TRUE(texts->pairs_begin_answers);
  const auto none = read_sentence_texts(files_of({}));
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->of_query(), "");
  for (const auto& [text, part] :
       {std::pair{R"({"prompts":{"query":3}})", "prompts: expected texts"},
        {R"({"default_prompt_name":"other"})", "default_prompt_name: expected one of the prompts"},
        {"[", "not valid JSON"}}) {
    const auto wrong = read_sentence_texts(files_of({{"config_sentence_transformers.json", text}}));
    EXPECT_THAT(wrong.status().message(), HasSubstr(part)) << text;
  }
}

}  // namespace
}  // namespace quire
