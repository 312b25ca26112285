#include "tokenizer/testing/golden.h"

#include <string_view>

#include "base/base64.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/files/gguf_vocab.h"
#include "tokenizer/files/tekken.h"
#include "tokenizer/files/tiktoken.h"
#include "tokenizer/json/tokenizer_json.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"

namespace quire {
namespace json = boost::json;
namespace {

std::vector<TokenId> id_list(const json::value& value) {
  std::vector<TokenId> ids;
  for (const json::value& id : value.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

std::string show(const std::vector<TokenId>& ids) { return json::serialize(json::value_from(ids)); }
std::string show(const std::string& text) { return json::serialize(json::string(text)); }

template <typename T>
void compare(std::string_view what, const std::string& input, const T& expected, const T& got,
             Differences& differences) {
  if (expected == got) return;
  differences.push_back(
      fmt::format("{} of {}: expected {}, got {}", what, input, show(expected), show(got)));
}

std::vector<std::string> string_list(const json::value& value) {
  return json::value_to<std::vector<std::string>>(value);
}

GgufVocab gguf_vocab(const json::object& golden) {
  return {.model = std::string(golden.at("model").as_string()),
          .pre = std::string(golden.at("pre").as_string()),
          .tokens = string_list(golden.at("tokens")),
          .token_types = json::value_to<std::vector<int32_t>>(golden.at("token_types")),
          .merges = string_list(golden.at("merges"))};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_golden_tokenizer(const json::object& golden) {
  if (const auto* model = golden.if_contains("model_b64")) {
    return tokenizer_from_sentencepiece(*base64_decode(std::string(model->as_string())));
  }
  if (const auto* ranks = golden.if_contains("tiktoken")) {
    return tokenizer_from_tiktoken(
        std::string(ranks->as_string()),
        *tiktoken_encoding(std::string(golden.at("encoding").as_string())));
  }
  if (const auto* file = golden.if_contains("tekken")) {
    QUIRE_ASSIGN_OR_RETURN(TekkenTokenizer read, tokenizer_from_tekken(json::serialize(*file)));
    return std::move(read.tokenizer);
  }
  if (const auto* ranks = golden.if_contains("kimi")) {
    return tokenizer_from_kimi_tiktoken(std::string(ranks->as_string()),
                                        json::serialize(golden.at("config")));
  }
  if (const auto* vocab = golden.if_contains("gguf")) {
    return tokenizer_from_gguf(gguf_vocab(vocab->as_object()));
  }
  return tokenizer_from_json(json::serialize(golden.at("tokenizer")));
}

Differences encode_differences(const Tokenizer& tokenizer, const json::object& golden) {
  Differences differences;
  for (const json::value& item : golden.at("cases").as_array()) {
    const json::object& c = item.as_object();
    const std::string text(c.at("text").as_string());
    const auto check = [&](const char* name, const EncodeOptions& options) {
      if (const json::value* ids = c.if_contains(name)) {
        compare(name, show(text), id_list(*ids), tokenizer.encode(text, options), differences);
      }
    };
    check("ids", {});
    check("ids_plain", {.add_special_tokens = false});
    check("ids_unparsed", {.add_special_tokens = false, .parse_special = false});
  }
  return differences;
}

Differences decode_differences(const Tokenizer& tokenizer, const json::object& golden) {
  Differences differences;
  for (const json::value& item : golden.at("decodes").as_array()) {
    const json::object& c = item.as_object();
    const auto ids = id_list(c.at("ids"));
    const std::string text(c.at("text").as_string());
    compare("text", show(ids), text, tokenizer.decode(ids), differences);
    if (c.contains("text_skip")) {
      compare("text_skip", show(ids), std::string(c.at("text_skip").as_string()),
              tokenizer.decode(ids, {.skip_special_tokens = true}), differences);
    }
    // Ill-formed runs of byte pieces may be decoded with another number of U+FFFD.
    if (text.find("\xEF\xBF\xBD") != text.npos) continue;
    IncrementalDetokenizer detokenizer(tokenizer);
    std::string streamed;
    for (const TokenId id : ids) streamed += detokenizer.push(id);
    streamed += detokenizer.finish();
    compare("streamed text", show(ids), text, streamed, differences);
  }
  return differences;
}

Differences piece_differences(const Tokenizer& tokenizer, const json::object& golden) {
  Differences differences;
  const int64_t size = golden.at("size").as_int64();
  if (tokenizer.vocab_size() != size) {
    differences.push_back(fmt::format("expected {} tokens, got {}", size, tokenizer.vocab_size()));
  }
  if (!golden.contains("pieces")) return differences;
  const int64_t step = golden.at("pieces_step").as_int64();
  const json::array& pieces = golden.at("pieces").as_array();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto id = static_cast<TokenId>(static_cast<int64_t>(i) * step);
    const std::string piece(pieces[i].as_string());
    compare("piece", fmt::to_string(id), piece, std::string(tokenizer.token_to_piece(id)),
            differences);
    compare("id", show(piece), std::vector<TokenId>{id},
            {tokenizer.piece_to_token(piece).value_or(-1)}, differences);
  }
  return differences;
}

}  // namespace quire
