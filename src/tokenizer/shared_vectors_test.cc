// These tests use every shared tokenizer file with published ids. Different file formats of one
// vocabulary must agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <boost/json.hpp>
#include <cstring>
#include <map>
#include <random>
#include <sstream>
#include <variant>

#include "tests/support/test_data.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/files/gguf_vocab.h"
#include "tokenizer/files/tiktoken.h"
#include "tokenizer/files/vocab_files.h"
#include "tokenizer/json/tokenizer_json.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"
#include "tokenizer/sentencepiece/sentencepiece_proto.h"
#include "tokenizer/testing/test_texts.h"

namespace quire {
namespace {

namespace json = boost::json;
using test::read_file;

std::unique_ptr<Tokenizer> must(Result<std::unique_ptr<Tokenizer>> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? std::move(result).value() : nullptr;
}

std::vector<TokenId> id_list(const json::value& value) {
  std::vector<TokenId> ids;
  for (const json::value& id : value.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

std::string stream_all(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  IncrementalDetokenizer detokenizer(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

// GgufKeys reads the tokenizer keys of a GGUF file's metadata without checks, because the file is
// trusted.
class GgufKeys {
 public:
  explicit GgufKeys(std::string_view bytes) : in_(bytes.substr(8)) {
    take<uint64_t>();
    const auto num_keys = take<uint64_t>();
    for (uint64_t i = 0; i < num_keys; ++i) read_pair();
  }

  GgufVocab vocab;

 private:
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, in_.data(), sizeof(T));
    in_.remove_prefix(sizeof(T));
    return value;
  }
  std::string take_string() {
    const auto size = take<uint64_t>();
    std::string text(in_.substr(0, size));
    in_.remove_prefix(size);
    return text;
  }
  using Value = std::variant<int64_t, float, std::string>;
  Value take_value(uint32_t type) {
    switch (type) {
      case 0:
      case 1:
      case 7:
        return int64_t{take<uint8_t>()};
      case 2:
      case 3:
        return int64_t{take<uint16_t>()};
      case 4:
        return int64_t{take<uint32_t>()};
      case 5:
        return int64_t{take<int32_t>()};
      case 6:
        return take<float>();
      case 8:
        return take_string();
      case 12:
        return static_cast<float>(take<double>());
      default:
        return static_cast<int64_t>(take<uint64_t>());
    }
  }

  void read_pair() {
    std::string key = take_string();
    const auto type = take<uint32_t>();
    constexpr std::string_view kPrefix = "tokenizer.ggml.";
    const bool wanted = key.starts_with(kPrefix);
    if (wanted) key.erase(0, kPrefix.size());
    if (type != 9) {
      const Value value = take_value(type);
      if (wanted) set(key, value);
      return;
    }
    const auto item_type = take<uint32_t>();
    const auto count = take<uint64_t>();
    for (uint64_t i = 0; i < count; ++i) {
      const Value item = take_value(item_type);
      if (!wanted) continue;
      if (key == "tokens") vocab.tokens.push_back(std::get<std::string>(item));
      if (key == "merges") vocab.merges.push_back(std::get<std::string>(item));
      if (key == "scores") vocab.scores.push_back(std::get<float>(item));
      if (key == "token_type")
        vocab.token_types.push_back(static_cast<int32_t>(std::get<int64_t>(item)));
    }
  }

  void set(const std::string& key, const Value& value) {
    if (key == "model") vocab.model = std::get<std::string>(value);
    if (key == "pre") vocab.pre = std::get<std::string>(value);
    if (key == "bos_token_id") vocab.bos_token_id = std::get<int64_t>(value);
    if (key == "eos_token_id") vocab.eos_token_id = std::get<int64_t>(value);
    if (key == "unknown_token_id") vocab.unknown_token_id = std::get<int64_t>(value);
    if (key == "add_bos_token") vocab.add_bos_token = std::get<int64_t>(value) != 0;
    if (key == "add_eos_token") vocab.add_eos_token = std::get<int64_t>(value) != 0;
    if (key == "add_space_prefix") vocab.add_space_prefix = std::get<int64_t>(value) != 0;
  }

  std::string_view in_;
};

std::unique_ptr<Tokenizer> load_gguf(const std::string& bytes) {
  return must(tokenizer_from_gguf(GgufKeys(bytes).vocab));
}

std::vector<std::string> split_cases(const std::string& text) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> cases;
  size_t begin = 0;
  for (size_t at = text.find(separator); at != text.npos; at = text.find(separator, begin)) {
    cases.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  cases.push_back(text.substr(begin));
  return cases;
}

class LlamaCppVocab : public ::testing::TestWithParam<const char*> {};

TEST_P(LlamaCppVocab, EveryTextGivesItsIds) {
  QUIRE_REQUIRE_SHARED(dir, "tokenizers/llama_cpp_vocabs");
  const std::string base = std::string("ggml-vocab-") + GetParam() + ".gguf";
  const bool packed = std::filesystem::exists(dir / (base + ".gz"));
  const auto tokenizer = load_gguf(read_file(dir / (packed ? base + ".gz" : base)));
  ASSERT_NE(tokenizer, nullptr);
  const auto texts = split_cases(read_file(dir / (base + ".inp")));
  std::istringstream lines(read_file(dir / (base + ".out")));
  ASSERT_EQ(texts.size(), 47u);
  for (const std::string& text : texts) {
    std::string line;
    std::getline(lines, line);  // the last, empty text has no line
    std::istringstream numbers(line);
    std::vector<TokenId> expected;
    for (TokenId id; numbers >> id;) expected.push_back(id);
    const auto ids = tokenizer->encode(text, {.add_special_tokens = false, .parse_special = false});
    EXPECT_EQ(ids, expected) << GetParam() << ": '" << text << "'";
    EXPECT_EQ(stream_all(*tokenizer, ids), tokenizer->decode(ids));
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LlamaCppVocab,
                         ::testing::Values("gpt-2", "llama-spm", "phi-3", "deepseek-llm",
                                           "starcoder"));

TEST(SharedVectors, MistralEncodings) {
  QUIRE_REQUIRE_SHARED(dir, "tokenizers/mistral_v0.3");
  const auto tokenizer = must(tokenizer_from_json(read_file(dir / "tokenizer.json")));
  ASSERT_NE(tokenizer, nullptr);
  const json::value document = json::parse(read_file(dir / "encodings.json"));
  ASSERT_EQ(document.at("entries").as_array().size(), 45u);
  for (const json::value& entry : document.at("entries").as_array()) {
    const std::string text(entry.at("text").as_string());
    const auto ids = tokenizer->encode(text, {.add_special_tokens = false});
    EXPECT_EQ(ids, id_list(entry.at("ids"))) << text;
    EXPECT_EQ(tokenizer->encode(text), id_list(entry.at("ids_special"))) << text;
    EXPECT_EQ(tokenizer->decode(ids), std::string(entry.at("decode").as_string()));
    EXPECT_EQ(stream_all(*tokenizer, ids), tokenizer->decode(ids));
  }
}

TEST(SharedVectors, Qwen2FormatsAgree) {
  QUIRE_REQUIRE_SHARED(dir, "tokenizers/qwen2");
  const std::string config = read_file(dir / "tokenizer_config.json");
  const auto a = must(tokenizer_from_json(read_file(dir / "tokenizer.json"), config));
  const auto b = must(tokenizer_from_vocab_and_merges(read_file(dir / "vocab.json.gz"),
                                                      read_file(dir / "merges.txt.gz"), config));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->vocab_size(), 151646);
  EXPECT_EQ(b->vocab_size(), 151646);
  EXPECT_EQ(a->eos_id(), 151645);
  EXPECT_EQ(b->eos_id(), 151645);
  EXPECT_THAT(a->encode("<|im_start|>user\nHi 12<|im_end|>"),
              ::testing::ElementsAre(151644, 872, 198, 13048, 220, 16, 17, 151645));
  EXPECT_EQ(a->token_bytes(151644), "<|im_start|>");
  test::TextMaker texts(7);
  for (int i = 0; i < 300; ++i) {
    const std::string text = texts.next();
    EXPECT_EQ(a->encode(text), b->encode(text)) << text;
  }
}

TEST(SharedVectors, O200kRoundTrips) {
  QUIRE_REQUIRE_SHARED(dir, "tokenizers/o200k");
  const auto tokenizer = must(tokenizer_from_tiktoken(read_file(dir / "o200k_base.tiktoken.gz"),
                                                      *tiktoken_encoding("o200k_base")));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 200019);
  EXPECT_THAT(tokenizer->encode("hello world<|endoftext|>"),
              ::testing::ElementsAre(24912, 2375, 199999));
  test::TextMaker texts(8);
  for (int i = 0; i < 300; ++i) {
    const std::string text = texts.next();
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    EXPECT_EQ(stream_all(*tokenizer, ids), text);
  }
}

TEST(SharedVectors, BertVocabulary) {
  QUIRE_REQUIRE_SHARED(dir, "tokenizers/bert");
  const auto tokenizer = must(tokenizer_from_vocab_txt(read_file(dir / "vocab.txt")));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 30522);
  const auto ids = tokenizer->encode("Hello, World! Unaffable naïveté.");
  EXPECT_THAT(ids, ::testing::ElementsAre(101, 7592, 1010, 2088, 999, 14477, 20961, 3468, 15743,
                                          2618, 1012, 102));
  EXPECT_EQ(tokenizer->decode(ids, {.skip_special_tokens = true}),
            "hello, world! unaffable naivete.");
}

// Returns BERT's list as a GGUF converter writes it: pieces inside words without a prefix, those at
// the start of a word with U+2581.
GgufVocab bert_as_gguf(const std::string& vocab_txt) {
  GgufVocab vocab;
  vocab.model = "bert";
  std::istringstream lines(vocab_txt);
  for (std::string line; std::getline(lines, line);) {
    const auto id = static_cast<int64_t>(vocab.tokens.size());
    const bool control = line == "[PAD]" || line == "[UNK]" || line == "[CLS]" || line == "[SEP]" ||
                         line == "[MASK]";
    if (line == "[UNK]") vocab.unknown_token_id = id;
    if (line == "[CLS]") vocab.cls_token_id = id;
    if (line == "[SEP]") vocab.seperator_token_id = id;
    if (line == "[PAD]") vocab.padding_token_id = id;
    vocab.tokens.push_back(control                  ? line
                           : line.starts_with("##") ? line.substr(2)
                                                    : "\u2581" + line);
    vocab.token_types.push_back(control ? 3 : 1);
  }
  return vocab;
}

TEST(SharedVectors, GgufBertAgreesWithItsList) {
  QUIRE_REQUIRE_SHARED(dir, "tokenizers/bert");
  const std::string list = read_file(dir / "vocab.txt");
  const auto plain = must(tokenizer_from_vocab_txt(list));
  const auto gguf = must(tokenizer_from_gguf(bert_as_gguf(list)));
  ASSERT_TRUE(plain && gguf);
  EXPECT_EQ(gguf->vocab_size(), plain->vocab_size());
  EXPECT_EQ(gguf->pad_id(), plain->pad_id());
  test::TextMaker texts(10);
  std::vector<std::string> cases = {"Hello, World! Unaffable naïveté.", "[CLS] a [MASK] b", "",
                                    "##ing ing", std::string(300, 'x')};
  for (int i = 0; i < 500; ++i) cases.push_back(texts.next());
  for (const std::string& text : cases) {
    // It marks the start of a word in only one of the two.
    if (text.find("\u2581") != text.npos) continue;
    EXPECT_EQ(gguf->encode(text), plain->encode(text)) << "'" << text << "'";
  }
  const auto ids = gguf->encode("Hello, World! Unaffable.");
  const std::string text = gguf->decode(ids, {.skip_special_tokens = true});
  EXPECT_EQ(text, "hello , world ! unaffable .");
}

TEST(SharedVectors, GgufT5AgreesWithItsModel) {
  QUIRE_REQUIRE_SHARED(dir, "tokenizers/t5");
  const std::string bytes = read_file(dir / "spiece.model");
  const SentencePieceProto proto = parse_sentencepiece_proto(bytes).value();
  GgufVocab vocab;
  vocab.model = "t5";
  for (const auto& piece : proto.pieces) {
    const auto id = static_cast<int64_t>(vocab.tokens.size());
    if (piece.text == proto.eos_piece) vocab.eos_token_id = id;
    if (piece.type == SentencePieceType::kUnknown) vocab.unknown_token_id = id;
    vocab.tokens.push_back(piece.text);
    vocab.scores.push_back(piece.score);
    vocab.token_types.push_back(static_cast<int32_t>(piece.type));
  }
  vocab.add_space_prefix = proto.add_dummy_prefix;
  vocab.remove_extra_whitespaces = proto.remove_extra_whitespaces;
  vocab.precompiled_charsmap = proto.charsmap;
  const auto gguf = must(tokenizer_from_gguf(std::move(vocab)));
  const auto plain = must(tokenizer_from_sentencepiece(bytes));
  ASSERT_TRUE(plain && gguf);
  test::TextMaker texts(11);
  for (int i = 0; i < 500; ++i) {
    const std::string text = i == 0 ? "  ＡＢ  ﬁne\t5 " : texts.next();
    const EncodeOptions bare{.add_special_tokens = false, .parse_special = false};
    auto ids = plain->encode(text, bare);
    EXPECT_EQ(gguf->encode(text, bare), ids) << "'" << text << "'";
    EXPECT_EQ(gguf->decode(ids), plain->decode(ids));
    ids.push_back(*gguf->eos_id());
    EXPECT_EQ(gguf->encode(text, {.parse_special = false}), ids);
  }
}

// tokenizer.model is compared with libsentencepiece: the ids of a text, and the text of the ids.
class SpmAgainstLibrary : public ::testing::TestWithParam<const char*> {};

TEST_P(SpmAgainstLibrary, SameIds) {
  QUIRE_REQUIRE_SHARED(file, std::string("tokenizers/") + GetParam());
  const std::string bytes = read_file(file);
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(bytes).ok());
  const auto tokenizer = must(tokenizer_from_sentencepiece(bytes));
  ASSERT_NE(tokenizer, nullptr);
  ASSERT_EQ(tokenizer->vocab_size(), library.GetPieceSize());
  test::TextMaker texts(9);
  for (int i = 0; i < 1000; ++i) {
    std::string text = texts.next();
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    const auto ids = tokenizer->encode(text, {.add_special_tokens = false, .parse_special = false});
    ASSERT_EQ(ids, expected) << "'" << text << "'";
    if (library.unk_id() >= 0 && std::find(ids.begin(), ids.end(), library.unk_id()) == ids.end()) {
      std::string expected_text;
      ASSERT_TRUE(library.Decode(expected, &expected_text).ok());
      EXPECT_EQ(tokenizer->decode(ids), expected_text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SpmAgainstLibrary,
    ::testing::Values("llama2_spm/tokenizer.model", "t5/spiece.model",
                      "mistral_spm_v3/mistral_instruct_tokenizer_240323.model.v3"));

TEST(SharedVectors, Stories260kFormatsAgree) {
  QUIRE_REQUIRE_SHARED(dir, "models/stories260K");
  const auto hf = must(tokenizer_from_json(read_file(dir / "hf_f32/tokenizer.json"),
                                           read_file(dir / "hf_f32/tokenizer_config.json")));
  const auto gguf = load_gguf(read_file(dir / "stories260K.gguf"));
  const auto spm = must(tokenizer_from_sentencepiece(
      read_file(dir / "hf_f32/tokenizer.model"),
      {.config_json = read_file(dir / "hf_f32/tokenizer_config.json")}));
  ASSERT_TRUE(hf && gguf && spm);
  for (const std::string text :
       {"Once upon a time, there was a little girl named Lily.", " She   ran\n", "Zoë 😀"}) {
    const auto ids = hf->encode(text);
    EXPECT_EQ(ids.front(), 1);
    EXPECT_EQ(gguf->encode(text), ids) << text;
    // The model's own normalizer joins runs of spaces; the other two files do not.
    if (text.find("  ") == text.npos) {
      EXPECT_EQ(spm->encode(text), ids) << text;
    }
    EXPECT_EQ(gguf->decode(ids, {.skip_special_tokens = true}), text);
  }
}

}  // namespace
}  // namespace quire
