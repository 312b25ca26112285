#include "engine/structured/forced_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/engine_test_support.h"
#include "tokenizer/json/tokenizer_json.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ForcedTokens, WhatFollowsATokenIsCutAsInTheWholeText) {
  const auto tokenizer = test::byte_tokenizer();
  EXPECT_THAT(tokens_after(*tokenizer, "", "ab"), ElementsAre('a', 'b'));
  EXPECT_THAT(tokens_after(*tokenizer, "{\"", "ab"), ElementsAre('a', 'b'));
  EXPECT_THAT(tokens_after(*tokenizer, "{\"", ""), IsEmpty());
}

TEST(ForcedTokens, HalfCharactersAreLeftOut) {
  const auto tokenizer = test::byte_tokenizer();
  EXPECT_THAT(tokens_after(*tokenizer, "a", "b\xC3"), ElementsAre('b'));
  EXPECT_THAT(tokens_after(*tokenizer, "a", "\xC3"), IsEmpty());
  EXPECT_THAT(tokens_after(*tokenizer, "\xC3", "\xA4"), IsEmpty());
}

// The tokenizer puts a space in front of every text, as SentencePiece does.
TEST(ForcedTokens, ABlankInFrontOfTheTextIsNoPartOfIt) {
  const auto tokenizer = tokenizer_from_json(
      R"({"added_tokens":[],"normalizer":{"type":"Sequence","normalizers":[
          {"type":"Prepend","prepend":"\u2581"},
          {"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]},
          "pre_tokenizer":null,"post_processor":null,
          "decoder":{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},
          "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
          "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
          "vocab":{"\u2581":0,"a":1,"b":2,"\u2581a":3,"ab":4},"merges":["\u2581 a","a b"]}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT(tokens_after(**tokenizer, "a", "b"), ElementsAre(2));
  EXPECT_THAT(tokens_after(**tokenizer, "b", "ab"), ElementsAre(4));
  EXPECT_THAT(tokens_after(**tokenizer, " a", "ab"), ElementsAre(4));
}

}  // namespace
}  // namespace quire
