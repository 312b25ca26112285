// A model in Mistral's own form, where only tekken.json says how to tokenize and how to chat.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "base/base64.h"
#include "quire/llm.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr int kNumSpecialTokens = 20;  // only the known ones, since the file lists none

// Pieces are the printable characters of ASCII.
std::string tekken_json(const char* version) {
  json::array vocab;
  for (char c = ' '; c <= '~'; ++c) {
    vocab.push_back(json::object{{"rank", vocab.size()},
                                 {"token_bytes", base64_encode(std::string(1, c))},
                                 {"token_str", std::string(1, c)}});
  }
  const json::object config{{"pattern", "[\\s\\S]"},
                            {"num_vocab_tokens", vocab.size()},
                            {"default_vocab_size", vocab.size() + kNumSpecialTokens},
                            {"default_num_special_tokens", kNumSpecialTokens},
                            {"version", version}};
  return json::serialize(json::object{{"config", config}, {"vocab", std::move(vocab)}});
}

void make_model(const test::TempFolder& folder, const char* version) {
  const auto golden = test::source_dir() / "tests/goldens/models/llama";
  for (const char* const name : {"config.json", "model.safetensors"})
    std::filesystem::copy(golden / name, folder / name);
  std::ofstream(folder / "tekken.json") << tekken_json(version);
}

TEST(TekkenModel, TokenizesAndChats) {
  const test::TempFolder folder;
  make_model(folder, "v7");
  const auto llm = LLM::load({.model = folder.string()});
  ASSERT_TRUE(llm.ok()) << llm.status().message();
  const auto ids = (*llm)->encode_chat({{"system", "Be kind."}, {"user", "hi"}});
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  const auto piece = [](char c) { return static_cast<TokenId>(kNumSpecialTokens + (c - ' ')); };
  std::vector<TokenId> expected = {1, 17};  // BOS, [SYSTEM_PROMPT]
  for (const char c : std::string_view("Be kind.")) expected.push_back(piece(c));
  for (const TokenId id : {18, 3, int{piece('h')}, int{piece('i')}, 4}) expected.push_back(id);
  EXPECT_EQ(*ids, expected);
  SamplingParams params;
  params.max_tokens = 4;
  EXPECT_TRUE((*llm)->chat({{"user", "hi"}}, params).ok());
}

TEST(TekkenModel, ATemplateOfTheModelWins) {
  const test::TempFolder folder;
  make_model(folder, "v7");
  std::ofstream(folder / "chat_template.jinja") << "{{ messages[0].content }}!";
  const auto llm = LLM::load({.model = folder.string()});
  ASSERT_TRUE(llm.ok()) << llm.status().message();
  EXPECT_EQ((*llm)->encode_chat({{"user", "hi"}}).value().size(), 3u);
}

TEST(TekkenModel, AnUnknownVersionHasNoChat) {
  const test::TempFolder folder;
  make_model(folder, "v1");
  const auto llm = LLM::load({.model = folder.string()});
  ASSERT_TRUE(llm.ok()) << llm.status().message();
  const auto ids = (*llm)->encode_chat({{"user", "hi"}});
  EXPECT_NE(ids.status().message().find("no chat template"), std::string::npos)
      << ids.status().message();
}

TEST(TekkenModel, DamagedFilesAreRefused) {
  const std::string whole = tekken_json("v7");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::pair<std::string, const char*> cases[] = {
      {whole.substr(0, whole.size() / 2), "tekken.json"},
      {"[]", "expected an object"},
      {with("\"pattern\"", "\"pat\""), "pattern"},
      {with(R"("rank":7)", R"("rank":8)"), "rank"},
      {with(R"("token_bytes":"IA==")", R"("token_bytes":"*")"), "base64"},
      {with(R"("token_bytes":"IQ==")", R"("token_bytes":"IA==")"), "twice"},
      {with(R"("default_num_special_tokens":20)", R"("default_num_special_tokens":-1)"),
       "expected 0 to 114, got -1"},
      {with(R"("default_num_special_tokens":20)", R"("default_num_special_tokens":3)"),
       "expected a rank of 0 to 2, got 3"},
      {with(R"("default_vocab_size":115)", R"("default_vocab_size":120)"),
       "expected 100 pieces of ranks below 100, got 95"},
      {with(R"("default_vocab_size":115)", R"("default_vocab_size":1000000000)"),
       "default_vocab_size"}};
  for (const auto& [text, said] : cases) {
    const test::TempFolder folder;
    make_model(folder, "v7");
    std::ofstream(folder / "tekken.json") << text;
    const auto llm = LLM::load({.model = folder.string()});
    ASSERT_FALSE(llm.ok()) << said;
    EXPECT_NE(llm.status().message().find("tekken.json"), std::string::npos);
    EXPECT_NE(llm.status().message().find(said), std::string::npos) << llm.status().message();
  }
}

}  // namespace
}  // namespace quire
