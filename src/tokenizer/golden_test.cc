// Tiny tokenizers of every kind against what the reference libraries made of the same texts
// (tools/make_tokenizer_goldens.py).
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/support/test_data.h"
#include "tokenizer/base64.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tiktoken.h"
#include "tokenizer/tokenizer_json.h"

namespace quire {
namespace {

namespace json = boost::json;

std::filesystem::path golden_dir() { return test::source_dir() / "tests/goldens/tokenizer"; }

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir(), error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::unique_ptr<Tokenizer>> load(const json::object& golden) {
  if (const auto* model = golden.if_contains("model_b64")) {
    return tokenizer_from_sentencepiece(*base64_decode(std::string(model->as_string())));
  }
  if (const auto* ranks = golden.if_contains("tiktoken")) {
    return tokenizer_from_tiktoken(
        std::string(ranks->as_string()),
        *tiktoken_encoding(std::string(golden.at("encoding").as_string())));
  }
  return tokenizer_from_json(json::serialize(golden.at("tokenizer")));
}

std::vector<TokenId> id_list(const json::value& value) {
  std::vector<TokenId> ids;
  for (const json::value& id : value.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    document_ = json::parse(test::read_file(golden_dir() / (GetParam() + ".json")));
    auto loaded = load(document_.as_object());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_ = std::move(loaded).value();
  }
  json::value document_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(Golden, Encodes) {
  for (const json::value& item : document_.at("cases").as_array()) {
    const json::object& c = item.as_object();
    const std::string text(c.at("text").as_string());
    const std::string note = GetParam() + ": " + json::serialize(c.at("text"));
    if (c.contains("ids")) {
      EXPECT_EQ(tokenizer_->encode(text), id_list(c.at("ids"))) << note;
    }
    if (c.contains("ids_plain")) {
      EXPECT_EQ(tokenizer_->encode(text, {.add_special_tokens = false}), id_list(c.at("ids_plain")))
          << note;
    }
    EXPECT_EQ(tokenizer_->encode(text, {.add_special_tokens = false, .parse_special = false}),
              id_list(c.at("ids_unparsed")))
        << note;
  }
}

TEST_P(Golden, Decodes) {
  for (const json::value& item : document_.at("decodes").as_array()) {
    const json::object& c = item.as_object();
    const auto ids = id_list(c.at("ids"));
    const std::string text(c.at("text").as_string());
    EXPECT_EQ(tokenizer_->decode(ids), text) << GetParam() << ": " << json::serialize(c.at("ids"));
    if (c.contains("text_skip")) {
      EXPECT_EQ(tokenizer_->decode(ids, {.skip_special_tokens = true}),
                std::string(c.at("text_skip").as_string()))
          << json::serialize(c.at("ids"));
    }
    IncrementalDetokenizer detokenizer(*tokenizer_);
    std::string streamed;
    for (const TokenId id : ids) streamed += detokenizer.push(id);
    streamed += detokenizer.finish();
    // Ill-formed runs of byte pieces may differ in the number of U+FFFD.
    if (text.find("\xEF\xBF\xBD") == text.npos) {
      EXPECT_EQ(streamed, text) << json::serialize(c.at("ids"));
    }
  }
}

TEST_P(Golden, NamesPieces) {
  const json::object& golden = document_.as_object();
  EXPECT_EQ(tokenizer_->vocab_size(), golden.at("size").as_int64());
  if (!golden.contains("pieces")) return;
  const auto step = golden.at("pieces_step").as_int64();
  const json::array& pieces = golden.at("pieces").as_array();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto id = static_cast<TokenId>(static_cast<int64_t>(i) * step);
    EXPECT_EQ(tokenizer_->token_to_piece(id), std::string(pieces[i].as_string()));
    EXPECT_EQ(tokenizer_->piece_to_token(std::string(pieces[i].as_string())), id);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, ::testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

TEST(GoldenFiles, AreThere) { EXPECT_GE(golden_names().size(), 30u); }

}  // namespace
}  // namespace quire
