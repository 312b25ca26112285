#include "tokenizer/files/tekken.h"

#include <boost/json.hpp>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "tokenizer/files/ranked_pieces.h"
#include "tokenizer/json/json_fields.h"

namespace quire {
namespace json = boost::json;
namespace {

constexpr std::string_view kBos = "<s>";
constexpr std::string_view kEos = "</s>";
constexpr std::string_view kUnk = "<unk>";
constexpr std::string_view kPad = "<pad>";

// The special tokens, by id, of files that list none.
constexpr std::string_view kOldSpecialTokens[] = {kUnk,
                                                  kBos,
                                                  kEos,
                                                  "[INST]",
                                                  "[/INST]",
                                                  "[AVAILABLE_TOOLS]",
                                                  "[/AVAILABLE_TOOLS]",
                                                  "[TOOL_RESULTS]",
                                                  "[/TOOL_RESULTS]",
                                                  "[TOOL_CALLS]",
                                                  "[IMG]",
                                                  kPad,
                                                  "[IMG_BREAK]",
                                                  "[IMG_END]",
                                                  "[PREFIX]",
                                                  "[MIDDLE]",
                                                  "[SUFFIX]",
                                                  "[SYSTEM_PROMPT]",
                                                  "[/SYSTEM_PROMPT]",
                                                  "[TOOL_CONTENT]"};

struct TekkenConfig {
  std::string pattern;
  std::string version;
  int64_t vocab_size = 0;  // special tokens and pieces
  int64_t num_special_tokens = 0;
};

Result<TekkenConfig> read_config(const json::object& file) {
  QUIRE_ASSIGN_OR_RETURN(const json::object* const object, object_field(file, "config"));
  TekkenConfig config;
  QUIRE_ASSIGN_OR_RETURN(config.pattern, string_field(*object, "pattern"));
  QUIRE_ASSIGN_OR_RETURN(config.version, string_field(*object, "version"));
  QUIRE_ASSIGN_OR_RETURN(config.vocab_size, int_field(*object, "default_vocab_size"));
  QUIRE_ASSIGN_OR_RETURN(config.num_special_tokens,
                         int_field(*object, "default_num_special_tokens"));
  if (config.vocab_size < 1 || config.vocab_size > Vocab::kMaxSize) {
    return invalid_argument("default_vocab_size: expected 1 to {}, got {}", Vocab::kMaxSize,
                            config.vocab_size);
  }
  if (config.num_special_tokens < 0 || config.num_special_tokens >= config.vocab_size) {
    return invalid_argument("default_num_special_tokens: expected 0 to {}, got {}",
                            config.vocab_size - 1, config.num_special_tokens);
  }
  return config;
}

// Reads the pieces. If the vocabulary lists more pieces than the model has ids for, the last are
// left out.
Result<RankedPieces> read_pieces(const json::object& file, const TekkenConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(const json::array* const vocab, array_field(file, "vocab"));
  const int64_t num_pieces = config.vocab_size - config.num_special_tokens;
  RankedPieces pieces;
  pieces.reserve(static_cast<size_t>(num_pieces), static_cast<size_t>(num_pieces) * 8);
  int64_t num_read = 0;
  for (const json::value& item : *vocab) {
    QUIRE_ASSIGN_OR_RETURN(const json::object* const entry, as_object(item, "vocab"));
    QUIRE_ASSIGN_OR_RETURN(const int64_t rank, int_field(*entry, "rank"));
    if (rank >= num_pieces) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::string encoded, string_field(*entry, "token_bytes"));
    const auto bytes = base64_decode(encoded);
    if (!bytes) return invalid_argument("vocab: rank {}: token_bytes is no base64", rank);
    const Status added = pieces.add(*bytes, rank);
    if (!added.ok()) return added.with_context(fmt::format("vocab: rank {}", rank));
    ++num_read;
  }
  if (num_read != num_pieces) {
    return invalid_argument("vocab: expected {} pieces of ranks below {}, got {}", num_pieces,
                            num_pieces, num_read);
  }
  return pieces;
}

// Returns the contents of the special tokens by id.
Result<std::vector<std::string>> read_special_tokens(const json::object& file,
                                                     const TekkenConfig& config) {
  std::vector<std::string> contents(static_cast<size_t>(config.num_special_tokens));
  const auto set = [&](int64_t id, std::string_view content) -> Status {
    if (id < 0 || id >= config.num_special_tokens) {
      return invalid_argument("special_tokens: expected a rank of 0 to {}, got {}",
                              config.num_special_tokens - 1, id);
    }
    std::string& place = contents[static_cast<size_t>(id)];
    if (!place.empty()) return invalid_argument("special_tokens: rank {} comes twice", id);
    if (content.empty()) return invalid_argument("special_tokens: rank {} has no token_str", id);
    place = content;
    return Status();
  };
  if (find_field(file, "special_tokens") != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const json::array* const listed, array_field(file, "special_tokens"));
    for (const json::value& item : *listed) {
      QUIRE_ASSIGN_OR_RETURN(const json::object* const entry, as_object(item, "special_tokens"));
      QUIRE_ASSIGN_OR_RETURN(const int64_t rank, int_field(*entry, "rank"));
      QUIRE_ASSIGN_OR_RETURN(const std::string content, string_field(*entry, "token_str"));
      QUIRE_RETURN_IF_ERROR(set(rank, content));
    }
  } else {
    int64_t id = 0;
    for (const std::string_view content : kOldSpecialTokens) {
      QUIRE_RETURN_IF_ERROR(set(id++, content));
    }
  }
  for (size_t id = 0; id < contents.size(); ++id) {
    if (contents[id].empty()) contents[id] = fmt::format("<SPECIAL_{}>", id);
  }
  return contents;
}

Result<TokenizerParts> make_parts(const json::object& file, const TekkenConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> specials,
                         read_special_tokens(file, config));
  QUIRE_ASSIGN_OR_RETURN(RankedPieces pieces, read_pieces(file, config));
  QUIRE_ASSIGN_OR_RETURN(TokenizerParts parts,
                         std::move(pieces).make_parts(
                             config.pattern, static_cast<TokenId>(config.num_special_tokens)));
  for (size_t i = 0; i < specials.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    const std::string& content = specials[i];
    if (parts.added_tokens.find(content) != nullptr) {
      return invalid_argument("special_tokens: '{}' comes twice", content);
    }
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add({.id = id, .content = content, .special = true}));
    if (content == kBos) parts.bos_id = id;
    if (content == kEos) parts.eos_id = id;
    if (content == kUnk) parts.unk_id = id;
    if (content == kPad) parts.pad_id = id;
  }
  if (parts.bos_id) parts.prefix_ids = {*parts.bos_id};
  parts.pair = {parts.prefix_ids, {}, {}};
  return parts;
}

Result<TekkenTokenizer> read_tekken(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const json::value document, parse_json(text, "file"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* const file, as_object(document, "file"));
  QUIRE_ASSIGN_OR_RETURN(TekkenConfig config, read_config(*file));
  QUIRE_ASSIGN_OR_RETURN(TokenizerParts parts, make_parts(*file, config));
  return TekkenTokenizer{std::make_unique<Tokenizer>(std::move(parts)), std::move(config.version)};
}

}  // namespace

Result<TekkenTokenizer> tokenizer_from_tekken(std::string_view text) {
  Result<TekkenTokenizer> read = read_tekken(text);
  if (!read.ok()) return read.status().with_context("tekken.json");
  return read;
}

}  // namespace quire
