#include "tokenizer/json/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/files/gguf_vocab.h"
#include "tokenizer/files/tiktoken.h"
#include "tokenizer/files/vocab_files.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string json_with(const std::string& fields) {
  return R"({"model":{"type":"WordLevel","vocab":{"a":0,"b":1},"unk_token":"a"})" + fields + "}";
}

std::string error_of(const std::string& json, const std::string& config = "") {
  const auto tokenizer = tokenizer_from_json(json, config);
  return tokenizer.ok() ? "(loaded)" : tokenizer.status().message();
}

TEST(TokenizerJson, NamesUnknownComponents) {
  EXPECT_EQ(error_of(json_with(R"(,"normalizer":{"type":"Magic"})")),
            "tokenizer.json: normalizer: unknown type 'Magic'");
  EXPECT_EQ(error_of(json_with(R"(,"pre_tokenizer":{"type":"Magic"})")),
            "tokenizer.json: pre_tokenizer: unknown type 'Magic'");
  EXPECT_EQ(error_of(json_with(R"(,"decoder":{"type":"Sequence","decoders":[{"type":"Magic"}]})")),
            "tokenizer.json: decoder: unknown type 'Magic'");
  EXPECT_EQ(error_of(json_with(R"(,"post_processor":{"type":"Magic"})")),
            "tokenizer.json: post_processor: unknown type 'Magic'");
  EXPECT_EQ(error_of(R"({"model":{"type":"Magic"}})"),
            "tokenizer.json: model: unknown type 'Magic'");
}

// Japanese scripts count as one script. Characters without a script belong to the word before them
// and are dropped if there is none. Every expectation is the result of tokenizers 0.23.
TEST(TokenizerJson, UnicodeScriptsCutWhereTheScriptChanges) {
  const auto tokenizer = tokenizer_from_json(R"({
      "pre_tokenizer":{"type":"UnicodeScripts"},
      "model":{"type":"WordLevel","unk_token":"?",
               "vocab":{"?":0,"a ":1,"か":2,"どこ食べ ー":3,".":4,"x":5,". ":6,"a":7,"a b":8}}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT((*tokenizer)->encode("a か"), ElementsAre(1, 2));
  EXPECT_THAT((*tokenizer)->encode("どこ食べ ー.x"), ElementsAre(3, 4, 5));
  EXPECT_THAT((*tokenizer)->encode("a. x"), ElementsAre(7, 6, 5));
  EXPECT_THAT((*tokenizer)->encode(" \u0378a b"), ElementsAre(8));
  EXPECT_THAT((*tokenizer)->encode(" "), ElementsAre());
}

std::string with_normalizers(const std::string& step, int count) {
  std::string steps;
  for (int i = 0; i < count; ++i) steps += (i == 0 ? "" : ",") + step;
  return json_with(R"(,"normalizer":{"type":"Sequence","normalizers":[)" + steps + "]}");
}

// 40 steps that each double a text would make 2^40 bytes out of one.
TEST(TokenizerJson, RefusesNormalizersThatMultiplyATextWithoutBound) {
  const std::string doubling = R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  EXPECT_EQ(error_of(with_normalizers(doubling, 40)),
            "tokenizer.json: normalizer: its steps may make a text 1099511627776 times as long, "
            "expected at most 1024");
  EXPECT_EQ(error_of(with_normalizers(doubling, 10)), "(loaded)");
  const std::string regex = R"({"type":"Replace","pattern":{"Regex":"."},"content":"aa"})";
  EXPECT_THAT(error_of(with_normalizers(regex, 40)), HasSubstr("times as long"));
  const std::string empty = R"({"type":"Replace","pattern":{"Regex":"x*"},"content":"a"})";
  EXPECT_THAT(error_of(with_normalizers(empty, 40)), HasSubstr("times as long"));
  EXPECT_THAT(error_of(with_normalizers(R"({"type":"ByteLevel"})", 40)),
              HasSubstr("expected at most 2 ByteLevel steps"));
  // Any number of steps that do not lengthen a text is accepted.
  const std::string same = R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})";
  EXPECT_EQ(error_of(with_normalizers(same, 40)), "(loaded)");
}

TEST(TokenizerJson, RefusesAPrecompiledCharsmapOfHugeReplacements) {
  const std::string blob = std::string(4, '\0') + std::string(2000, 'x') + '\0';
  const auto map = Charsmap::parse(blob);
  ASSERT_FALSE(map.ok());
  EXPECT_THAT(map.status().message(), HasSubstr("at most 1024 bytes, got 2000"));
}

// As in tokenizers 0.23, a token that is looked for in normalized text decodes to that text.
TEST(TokenizerJson, NormalizedAddedTokensDecodeNormalized) {
  const auto tokenizer = tokenizer_from_json(json_with(R"(,"normalizer":{"type":"Lowercase"},
      "added_tokens":[{"id":2,"content":"Hi There","normalized":true},
                      {"id":3,"content":"Yo U","normalized":false}])"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{0, 2, 1}), "a hi there b");
  EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{3}), "Yo U");
  EXPECT_EQ((*tokenizer)->token_to_piece(2), "hi there");
  EXPECT_EQ((*tokenizer)->piece_to_token("Hi There"), 2);
  EXPECT_THAT((*tokenizer)->encode("HI THERE"), ElementsAre(2));
  // Ids without a token, as in a padded vocabulary, decode to nothing.
  EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{0, 4, 99999, 1}), "a b");
}

std::vector<TokenId> ids_with_config(const std::string& fields, const std::string& config) {
  const auto tokenizer = tokenizer_from_json(json_with(fields), config);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? (*tokenizer)->encode("b") : std::vector<TokenId>();
}

// hf_config.h describes the rule. DeepSeek-Coder is a LlamaTokenizerFast whose tokenizer.json adds
// no tokens.
TEST(TokenizerJson, LlamaClassesHonourAddBosAndAddEos) {
  const std::string tokens = R"(,"bos_token":"<s>","eos_token":"</s>"})";
  const std::string added = R"(,"added_tokens":[{"id":2,"content":"<s>","special":true},
                                                {"id":3,"content":"</s>","special":true}])";
  const auto config = [&](const std::string& name, const std::string& more) {
    return R"({"tokenizer_class":")" + name + "\"" + more + tokens;
  };
  EXPECT_THAT(ids_with_config(added, config("LlamaTokenizerFast", R"(,"add_bos_token":true)")),
              ElementsAre(2, 1));
  EXPECT_THAT(ids_with_config(
                  added, config("GemmaTokenizer", R"(,"add_bos_token":true,"add_eos_token":true)")),
              ElementsAre(2, 1, 3));
  EXPECT_THAT(ids_with_config(added, config("LlamaTokenizer", R"(,"add_bos_token":false)")),
              ElementsAre(1));
  EXPECT_THAT(ids_with_config(added, config("LlamaTokenizer", "")), ElementsAre(1));
  EXPECT_THAT(ids_with_config(added, config("PreTrainedTokenizerFast", R"(,"add_bos_token":true)")),
              ElementsAre(1));
  // The fields are ignored if a post-processor adds tokens.
  const std::string post = R"(,"post_processor":{"type":"TemplateProcessing",
      "single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
      "pair":[],"special_tokens":{"</s>":{"id":"</s>","ids":[3],"tokens":["</s>"]}}})";
  EXPECT_THAT(ids_with_config(added + post, config("LlamaTokenizer", R"(,"add_bos_token":true)")),
              ElementsAre(1, 3));
}

// Metaspace "first" looks at the original text: if its beginning was stripped, no word is at its
// start.
TEST(TokenizerJson, AStrippedStartGetsNoMetaspace) {
  const auto tokenizer = tokenizer_from_json(R"({
      "normalizer":{"type":"Sequence","normalizers":[{"type":"Lowercase"},
                    {"type":"Strip","strip_left":true,"strip_right":true}]},
      "pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true},
      "model":{"type":"WordLevel","vocab":{"a":0,"▁a":1,"?":2},"unk_token":"?"}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT((*tokenizer)->encode("A a"), ElementsAre(1, 1));
  EXPECT_THAT((*tokenizer)->encode("  A a "), ElementsAre(0, 1));
}

// A sequence of no decoders joins pieces; a missing decoder puts spaces between them.
TEST(TokenizerJson, AnEmptyDecoderSequenceJoins) {
  const auto joining =
      tokenizer_from_json(json_with(R"(,"decoder":{"type":"Sequence","decoders":[]})"));
  ASSERT_TRUE(joining.ok()) << joining.status().message();
  EXPECT_EQ((*joining)->decode(std::vector<TokenId>{0, 1, 1}), "abb");
  const auto spacing = tokenizer_from_json(json_with(""));
  ASSERT_TRUE(spacing.ok()) << spacing.status().message();
  EXPECT_EQ((*spacing)->decode(std::vector<TokenId>{0, 1, 1}), "a b b");
}

// An empty match separates its neighbours, but not directly behind another match.
TEST(TokenizerJson, SplitsAtEmptyMatches) {
  const auto tokenizer = tokenizer_from_json(R"({
      "pre_tokenizer":{"type":"Split","pattern":{"Regex":"x*"},"behavior":"Contiguous","invert":true},
      "model":{"type":"WordLevel","vocab":{"?":0,"a":1,"b":2,"xx":3,"ab":4},"unk_token":"?"}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT((*tokenizer)->encode("abxxa"), ElementsAre(1, 2, 3, 1));
}

// "  " takes all spaces behind it, so that " " finds none.
TEST(TokenizerJson, AnAddedTokenIsNotFoundInsideWhatAnotherStripped) {
  const auto tokenizer = tokenizer_from_json(json_with(R"(,"added_tokens":[
      {"id":2,"content":"  ","rstrip":true,"normalized":false},
      {"id":3,"content":" ","lstrip":true,"normalized":false}])"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT((*tokenizer)->encode("   b"), ElementsAre(2, 1));
  EXPECT_THAT((*tokenizer)->encode(" b"), ElementsAre(3, 1));
}

// A joiner is a word character.
TEST(TokenizerJson, SingleWordTokensDoNotTouchJoiners) {
  const auto tokenizer = tokenizer_from_json(json_with(R"(,"added_tokens":[
      {"id":2,"content":"up","single_word":true,"normalized":false}])"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT((*tokenizer)->encode("up"), ElementsAre(2));
  EXPECT_THAT((*tokenizer)->encode("up\u200d"), ElementsAre(0));
}

TEST(TokenizerJson, RefusesToAddTokensAroundATemplate) {
  EXPECT_THAT(error_of(json_with(R"(,"post_processor":{"type":"Sequence","processors":[
                  {"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}]},
                  {"type":"BertProcessing","cls":["a",0],"sep":["b",1]}]})")),
              HasSubstr("tokens added after TemplateProcessing"));
}

// The expected ids and type ids are those of `tokenizers` for the same files.
TEST(TokenizerJson, PairsAreJoinedAsThePostProcessorSays) {
  const auto pair_of = [](const std::string& post, int64_t max_tokens = 0) {
    const auto tokenizer = tokenizer_from_json(json_with(post));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    return (*tokenizer)->encode_pair("b", "b b", max_tokens);
  };
  const EncodedPair bert =
      pair_of(R"(,"post_processor":{"type":"BertProcessing","cls":["c",7],"sep":["s",8]})");
  EXPECT_THAT(bert.ids.front(), 7);
  EXPECT_THAT(bert.ids.back(), 8);
  EXPECT_EQ(bert.first_type_1_token, 3);
  EXPECT_EQ(bert.ids[2], 8);
  const EncodedPair roberta =
      pair_of(R"(,"post_processor":{"type":"RobertaProcessing","cls":["c",7],"sep":["s",8]})");
  EXPECT_EQ(roberta.first_type_1_token, -1);
  EXPECT_EQ(roberta.ids[2], 8);
  EXPECT_EQ(roberta.ids[3], 8);
  const std::string both = R"(,"post_processor":{"type":"TemplateProcessing",
      "single":[{"SpecialToken":{"id":"c","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
      "pair":[{"SpecialToken":{"id":"c","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
              {"SpecialToken":{"id":"s","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
      "special_tokens":{"c":{"ids":[7]},"s":{"ids":[8]}}})";
  const EncodedPair whole = pair_of(both);
  EXPECT_THAT(whole.ids.front(), 7);
  EXPECT_EQ(whole.ids[2], 8);
  EXPECT_EQ(whole.first_type_1_token, 3);
  // The longer text is cut first, and of equally long ones the second.
  EXPECT_THAT(pair_of(both, 4).ids, ElementsAre(7, 1, 8, 0));
  EXPECT_THAT(pair_of(both, 3).ids, ElementsAre(7, 1, 8));
  EXPECT_THAT(pair_of(both, 1).ids, ElementsAre(7, 8));
  EXPECT_EQ(pair_of("").ids.size(), whole.ids.size() - 2);
}

TEST(TokenizerJson, RefusesLies) {
  EXPECT_THAT(error_of("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("{} x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(std::string(10'000, '[')), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object, got an array"));
  EXPECT_THAT(error_of("{}"), HasSubstr("'model': expected an object, got nothing"));
  EXPECT_THAT(error_of(R"({"model":{"type":"WordLevel","vocab":{"a":-1}}})"),
              HasSubstr("expected ids in [0,"));
  EXPECT_THAT(error_of(R"({"model":{"type":"WordLevel","vocab":{"a":99999999999}}})"),
              HasSubstr("expected ids in [0,"));
  EXPECT_THAT(error_of(R"({"model":{"type":"WordLevel","vocab":{"a":1,"b":1}}})"),
              HasSubstr("two different pieces"));
  EXPECT_THAT(error_of(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})"),
              HasSubstr("'b' is not in the vocabulary"));
  EXPECT_THAT(error_of(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[7]}})"),
              HasSubstr("merges: expected"));
  EXPECT_THAT(error_of(R"({"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":5}})"),
              HasSubstr("'unk_id'"));
  EXPECT_THAT(error_of(json_with(R"(,"added_tokens":[{"content":"x","id":-5}])")),
              HasSubstr("added token 'x'"));
  EXPECT_THAT(error_of(json_with(R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("}})")),
              HasSubstr("regex '('"));
  EXPECT_THAT(
      error_of(json_with(R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"})")),
      HasSubstr("charsmap"));
  EXPECT_THAT(error_of(json_with(""), R"({"bos_token":7})"), HasSubstr("special token"));
}

TEST(TokenizerJson, ConfigAddsTokensAndNames) {
  const auto tokenizer =
      tokenizer_from_json(
          json_with(R"(,"pre_tokenizer":{"type":"WhitespaceSplit"})"),
          R"({"bos_token":"b","eos_token":{"content":"<eos>","lstrip":false},"pad_token":null,
          "added_tokens_decoder":{"7":{"content":"<x>","special":true}},"add_bos_token":true})")
          .value();
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 8);  // after <x>
  EXPECT_EQ(tokenizer->pad_id(), std::nullopt);
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_TRUE(tokenizer->is_special(7));
  EXPECT_THAT(tokenizer->encode("b <x><eos>"), ElementsAre(1, 7, 8));
  EXPECT_THAT(tokenizer->special_ids(), ElementsAre(1, 7, 8));
  EXPECT_EQ(tokenizer->token_to_piece(5), "");
}

TEST(TokenizerJson, OneMegabyteWithoutSpacesTakesLinearSteps) {
  std::string vocab = R"("a":0,"b":1,"Ġ":2)";
  std::string merges;
  std::string piece = "a";
  for (int id = 3; id < 12; ++id) {
    merges += fmt::format("{}\"{} {}\"", id > 3 ? "," : "", piece, piece);
    piece += piece;
    vocab += fmt::format(",\"{}\":{}", piece, id);
  }
  const auto tokenizer =
      tokenizer_from_json(R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
      "model":{"type":"BPE","vocab":{)" +
                          vocab + R"(},"merges":[)" + merges + "]}}")
          .value();
  for (const std::string unit : {"a", "ab", " "}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const uint64_t before = tokenizer->num_merge_steps();
    EXPECT_FALSE(tokenizer->encode(text).empty());
    EXPECT_LE(tokenizer->num_merge_steps() - before, 3 * text.size());
  }
}

TEST(Tiktoken, RefusesBadLines) {
  const auto encoding = tiktoken_encoding("cl100k_base");
  ASSERT_TRUE(encoding.has_value());
  EXPECT_FALSE(tiktoken_encoding("nope").has_value());
  for (const char* text :
       {"", "YQ==", "YQ== x", "!! 0", " 0", "YQ== 0\nYQ== 1\n", "YQ== 0\nYg== 0\n", "YQ== -1"}) {
    EXPECT_FALSE(tokenizer_from_tiktoken(text, *encoding).ok()) << text;
  }
  const auto tokenizer = tokenizer_from_tiktoken("YQ== 0\r\nYg== 1\nYWI= 2\n", *encoding).value();
  EXPECT_THAT(tokenizer->encode("abba<|endoftext|>"), ElementsAre(2, 1, 0, 100257));
}

TEST(SentencePiece, RefusesBrokenModels) {
  for (const std::string& bytes :
       {std::string(), std::string("\x0A\xFF"),
        std::string("\x0A\x05"
                    "abc"),
        std::string("\x0B"), std::string(20, '\xFF'), std::string("\x12\x02\x18\x09")}) {
    const auto tokenizer = tokenizer_from_sentencepiece(bytes);
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_THAT(tokenizer.status().message(), HasSubstr("tokenizer.model: "));
  }
}

TEST(VocabFiles, RefuseBadInput) {
  EXPECT_FALSE(tokenizer_from_vocab_txt("").ok());
  EXPECT_FALSE(tokenizer_from_vocab_txt("\xFF\n").ok());
  EXPECT_FALSE(tokenizer_from_vocab_and_merges("[]", "").ok());
  EXPECT_FALSE(tokenizer_from_vocab_and_merges(R"({"a":0})", "a b\n").ok());
  const auto tokenizer =
      tokenizer_from_vocab_and_merges(R"({"a":0,"b":1,"ab":2})", "#version: 0.2\na b\n").value();
  EXPECT_THAT(tokenizer->encode("abb"), ElementsAre(2, 1));
}

GgufVocab tiny_gguf() {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "▁a", "<x>"};
  vocab.scores = {0, 0, 0, -3, -2, -1, 0};
  vocab.token_types = {2, 3, 3, 1, 1, 1, 4};
  vocab.bos_token_id = 1;
  vocab.eos_token_id = 2;
  return vocab;
}

TEST(GgufVocab, AddsBosAndFindsSpecials) {
  const auto tokenizer = tokenizer_from_gguf(tiny_gguf()).value();
  EXPECT_THAT(tokenizer->encode("a</s>"), ElementsAre(1, 5, 2));
  EXPECT_THAT(tokenizer->encode("<x>a", {.add_special_tokens = false, .parse_special = false}),
              ElementsAre(6, 5));
  EXPECT_EQ(tokenizer->eos_id(), 2);
  GgufVocab plain = tiny_gguf();
  plain.add_bos_token = false;
  plain.add_space_prefix = false;
  EXPECT_THAT(tokenizer_from_gguf(plain).value()->encode("aa"), ElementsAre(4, 4));
}

TEST(GgufVocab, RefusesLies) {
  GgufVocab vocab = tiny_gguf();
  vocab.scores.pop_back();
  EXPECT_EQ(tokenizer_from_gguf(vocab).status().message(),
            "GGUF vocabulary: expected 7 scores, got 6");
  vocab = tiny_gguf();
  vocab.model = "magic";
  EXPECT_THAT(tokenizer_from_gguf(vocab).status().message(), HasSubstr("'magic'"));
  vocab = tiny_gguf();
  vocab.model = "gpt2";
  vocab.pre = "magic";
  EXPECT_THAT(tokenizer_from_gguf(vocab).status().message(),
              HasSubstr("unknown pre-tokenizer 'magic'"));
  vocab = tiny_gguf();
  vocab.bos_token_id = 1'000'000'000'000;
  EXPECT_EQ(tokenizer_from_gguf(vocab).value()->bos_id(), std::nullopt);
  EXPECT_FALSE(tokenizer_from_gguf({}).ok());
}

}  // namespace
}  // namespace quire
