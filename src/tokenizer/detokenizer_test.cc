#include "tokenizer/detokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tokenizer/json/tokenizer_json.h"
#include "tokenizer/model/bpe.h"
#include "tokenizer/model/byte_level.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
const std::string kReplacement = "\xEF\xBF\xBD";

// Returns a tokenizer with one token for every byte, in the byte alphabet; token 256 is special.
std::unique_ptr<Tokenizer> byte_tokenizer() {
  TokenizerParts parts;
  Vocab vocab;
  for (int b = 0; b < 256; ++b) {
    EXPECT_TRUE(vocab.add(byte_level_encode(std::string(1, static_cast<char>(b))), b).ok());
  }
  parts.model = BpeModel::make(std::move(vocab), {}, {.raw_bytes = true}).value();
  EXPECT_TRUE(parts.added_tokens.add({.id = 256, .content = "<end>", .special = true}).ok());
  parts.decoder_steps.push_back({.kind = DecoderStep::Kind::kByteLevel});
  return std::make_unique<Tokenizer>(std::move(parts));
}

// Returns a tokenizer of words with U+2581 and byte pieces, which are decoded as in SentencePiece.
std::unique_ptr<Tokenizer> spm_tokenizer() {
  std::string vocab = R"("▁Hello":0,"▁world":1,"▁":2,"s":3)";
  for (int b = 0; b < 256; ++b) vocab += fmt::format(R"(,"<0x{:02X}>":{})", b, b + 4);
  return tokenizer_from_json(R"({"model":{"type":"WordLevel","vocab":{)" + vocab +
                             R"(}},"decoder":{"type":"Sequence",
      "decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
      {"type":"Strip","content":" ","start":1,"stop":0}]}})")
      .value();
}

TEST(Detokenizer, HoldsBackIncompleteCharacters) {
  const auto tokenizer = byte_tokenizer();
  IncrementalDetokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.push(0x9F), "");
  EXPECT_EQ(detokenizer.push(0x98), "");
  EXPECT_EQ(detokenizer.push(0x80), "\U0001F600");
  EXPECT_EQ(detokenizer.push(0xE2), "");
  EXPECT_EQ(detokenizer.push('x'), kReplacement + "x");
  EXPECT_EQ(detokenizer.push(0xE2), "");
  EXPECT_EQ(detokenizer.finish(), kReplacement);
}

TEST(Detokenizer, EqualsDecodeOnRandomBytes) {
  const auto tokenizer = byte_tokenizer();
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 rng(seed);
    std::vector<TokenId> ids;
    IncrementalDetokenizer detokenizer(*tokenizer);
    std::string text;
    for (int i = 0; i < 60; ++i) {
      const char32_t c = rng() % 3 == 0   ? 0x80 + rng() % 0x2000
                         : rng() % 3 == 0 ? 0x1F600 + rng() % 50
                                          : 'a';
      std::string bytes = to_utf8(c);
      if (rng() % 8 == 0) bytes.resize(1 + rng() % bytes.size());
      for (const char b : bytes) {
        ids.push_back(static_cast<unsigned char>(b));
        const std::string piece = detokenizer.push(ids.back());
        ASSERT_TRUE(is_valid_utf8(piece)) << "seed " << seed;
        text += piece;
      }
    }
    text += detokenizer.finish();
    ASSERT_EQ(text, tokenizer->decode(ids)) << "seed " << seed;
  }
}

TEST(Detokenizer, SpmStripsOnlyTheFirstSpace) {
  const auto tokenizer = spm_tokenizer();
  IncrementalDetokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.push(0), "Hello");
  EXPECT_EQ(detokenizer.push(1), " world");
  EXPECT_EQ(detokenizer.push(4 + 0xC3), "");
  EXPECT_EQ(detokenizer.push(4 + 0xA9), "é");
  EXPECT_EQ(detokenizer.push(2), " ");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, ContinuesAPrompt) {
  const auto tokenizer = spm_tokenizer();
  IncrementalDetokenizer detokenizer(*tokenizer);
  const std::vector<TokenId> prompt = {0, 1};
  detokenizer.prime(prompt);
  EXPECT_EQ(detokenizer.push(1), " world");
}

TEST(Detokenizer, InvalidByteRuns) {
  const auto tokenizer = spm_tokenizer();
  const std::vector<TokenId> ids = {0, 4 + 0xC3, 3};
  EXPECT_EQ(tokenizer->decode(ids), "Hello" + kReplacement + "s");
  IncrementalDetokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.push(0), "Hello");
  EXPECT_EQ(detokenizer.push(4 + 0xC3), "");
  EXPECT_EQ(detokenizer.push(3), kReplacement + "s");
}

TEST(Detokenizer, SkipsSpecialAndUnknownTokens) {
  const auto tokenizer = byte_tokenizer();
  IncrementalDetokenizer skipping(*tokenizer, {.skip_special_tokens = true});
  EXPECT_EQ(skipping.push(256), "");
  EXPECT_EQ(skipping.push(999'999), "");
  EXPECT_EQ(skipping.push(-1), "");
  EXPECT_EQ(skipping.push('a'), "a");
  IncrementalDetokenizer keeping(*tokenizer);
  EXPECT_EQ(keeping.push(256), "<end>");
}

TEST(Detokenizer, SpacesBetweenAddedTokens) {
  // Without a decoder tokens are joined by spaces.
  const auto tokenizer =
      tokenizer_from_json(R"({"model":{"type":"WordLevel","vocab":{"a":0,"b":1}},"added_tokens":[
        {"id":2,"content":"<x>","special":true},{"id":3,"content":"<y>","special":false}]})")
          .value();
  const auto text_of = [&](DetokenizerOptions options, std::vector<TokenId> ids) {
    IncrementalDetokenizer detokenizer(*tokenizer, options);
    std::string text;
    for (const TokenId id : ids) text += detokenizer.push(id);
    return text + detokenizer.finish();
  };
  EXPECT_EQ(text_of({}, {0, 2, 3, 2, 1, 0}), "a <x> <y> <x> b a");
  EXPECT_EQ(text_of({.spaces_between_special_tokens = false}, {0, 2, 3, 2, 1, 0}),
            "a <x><y><x> b a");
  EXPECT_EQ(
      text_of({.skip_special_tokens = true, .spaces_between_special_tokens = false}, {3, 2, 3, 0}),
      "<y><y> a");
  // Whether the prompt's last token is an added one does not matter.
  IncrementalDetokenizer continuing(*tokenizer, {.spaces_between_special_tokens = false});
  const std::vector<TokenId> prompt = {0, 2};
  continuing.prime(prompt);
  EXPECT_EQ(continuing.push(2), " <x>");
  EXPECT_EQ(continuing.push(2), "<x>");
}

TEST(Detokenizer, CleanUpMatchesTheWholeText) {
  const std::string vocab_words[] = {"a",  ".",   "?",   "!", ",", "'",     "n't", "'m",
                                     "'s", "'ve", "'re", "n", "t", "seven", "é",   "do"};
  std::string vocab;
  TokenId next = 0;
  for (const auto& word : vocab_words)
    vocab += fmt::format("{}\"{}\":{}", next ? "," : "", word, next), ++next;
  const std::string json = R"({"model":{"type":"WordLevel","vocab":{)" + vocab + "}}}";
  const auto plain = tokenizer_from_json(json).value();
  const auto cleaned =
      tokenizer_from_json(json, R"({"clean_up_tokenization_spaces":true})").value();
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 rng(seed);
    std::vector<TokenId> ids(rng() % 40);
    for (TokenId& id : ids) id = static_cast<TokenId>(rng() % static_cast<unsigned>(next));
    const std::string expected = clean_up_spaces(plain->decode(ids));
    ASSERT_EQ(cleaned->decode(ids), expected) << "seed " << seed;
    IncrementalDetokenizer detokenizer(*cleaned);
    std::string text;
    for (const TokenId id : ids) text += detokenizer.push(id);
    ASSERT_EQ(text + detokenizer.finish(), expected) << "seed " << seed;
  }
}

TEST(TokenBytes, AreWhatATokenAddsInMidText) {
  const auto bytes = byte_tokenizer();
  EXPECT_EQ(bytes->token_bytes(0xE2), "\xE2");
  EXPECT_EQ(bytes->token_bytes(256), "<end>");
  EXPECT_EQ(bytes->token_bytes(12345), "");
  const auto spm = spm_tokenizer();
  EXPECT_EQ(spm->token_bytes(1), " world");
  EXPECT_EQ(spm->token_bytes(4 + 0xC3), "\xC3");
}

TEST(Tokenizer, ThreadsShareOne) {
  const auto tokenizer = byte_tokenizer();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string text = fmt::format("thread {} says {} <end>é", t, i);
        if (tokenizer->decode(tokenizer->encode(text)) != text) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Tokenizer, IllFormedInputCountsAsReplacementCharacters) {
  const auto tokenizer = byte_tokenizer();
  EXPECT_THAT(tokenizer->encode("a\xFF"), ElementsAre('a', 0xEF, 0xBF, 0xBD));
}

}  // namespace
}  // namespace quire
