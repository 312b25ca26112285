// These functions parse the "model" of a tokenizer.json.
#include "tokenizer/json/json_components.h"
#include "tokenizer/json/json_fields.h"
#include "tokenizer/model/bpe.h"
#include "tokenizer/model/unigram.h"
#include "tokenizer/model/wordpiece.h"

namespace quire {
namespace json = boost::json;
namespace {

Result<Vocab> parse_vocab(const json::object& model) {
  QUIRE_ASSIGN_OR_RETURN(const json::object* pieces, object_field(model, "vocab"));
  Vocab vocab;
  size_t num_bytes = 0;
  for (const auto& entry : *pieces) num_bytes += entry.key().size();
  vocab.reserve(pieces->size(), num_bytes);
  for (const auto& entry : *pieces) {
    const std::string_view piece(entry.key().data(), entry.key().size());
    const auto id = as_int(entry.value());
    if (!id)
      return invalid_argument("vocab: expected an id for '{}', got {}", piece,
                              kind_name(entry.value()));
    QUIRE_RETURN_IF_ERROR(vocab.add(piece, *id));
  }
  return vocab;
}

Result<std::optional<TokenId>> parse_unk_token(const json::object& model, const Vocab& vocab) {
  if (find_field(model, "unk_token") == nullptr) return std::optional<TokenId>();
  QUIRE_ASSIGN_OR_RETURN(const std::string piece, string_field(model, "unk_token"));
  // A name that is no piece is an error only when the piece is needed, so it is ignored here.
  return vocab.find(piece);
}

struct PiecePair {
  std::string_view left;
  std::string_view right;
};

// Parses "left right" or ["left", "right"].
Result<PiecePair> parse_merge(const json::value& value) {
  if (value.is_array() && value.get_array().size() == 2 && value.get_array()[0].is_string() &&
      value.get_array()[1].is_string()) {
    const json::array& pair = value.get_array();
    return PiecePair{as_view(pair[0].get_string()), as_view(pair[1].get_string())};
  }
  if (value.is_string()) {
    const std::string_view text = as_view(value.get_string());
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos) {
      return PiecePair{text.substr(0, space), text.substr(space + 1)};
    }
  }
  return invalid_argument("merges: expected \"left right\" or two strings, got {}",
                          json::serialize(value));
}

Result<std::vector<BpeModel::Merge>> parse_merges(const json::object& model, const Vocab& vocab,
                                                  std::string_view prefix) {
  QUIRE_ASSIGN_OR_RETURN(const json::array* list, array_field(model, "merges"));
  std::vector<BpeModel::Merge> merges;
  merges.reserve(list->size());
  std::string joined;
  for (const json::value& value : *list) {
    QUIRE_ASSIGN_OR_RETURN(const PiecePair pair, parse_merge(value));
    joined = pair.left;
    joined += pair.right.substr(std::min(prefix.size(), pair.right.size()));
    const auto left = vocab.find(pair.left);
    const auto right = vocab.find(pair.right);
    const auto result = vocab.find(joined);
    if (!left || !right || !result) {
      return invalid_argument("merges: '{}' is not in the vocabulary", !left    ? pair.left
                                                                       : !right ? pair.right
                                                                                : joined);
    }
    merges.push_back({*left, *right, *result, static_cast<uint32_t>(merges.size())});
  }
  return merges;
}

Result<ParsedModel> parse_bpe(const json::object& model, ModelInput& input) {
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, parse_vocab(model));
  BpeOptions options;
  QUIRE_ASSIGN_OR_RETURN(options.unk_id, parse_unk_token(model, vocab));
  QUIRE_ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                         string_field_or(model, "continuing_subword_prefix", ""));
  QUIRE_ASSIGN_OR_RETURN(options.end_of_word_suffix,
                         string_field_or(model, "end_of_word_suffix", ""));
  QUIRE_ASSIGN_OR_RETURN(options.fuse_unk, bool_field_or(model, "fuse_unk", false));
  QUIRE_ASSIGN_OR_RETURN(options.byte_fallback, bool_field_or(model, "byte_fallback", false));
  QUIRE_ASSIGN_OR_RETURN(options.ignore_merges, bool_field_or(model, "ignore_merges", false));
  const bool has_affixes =
      !options.continuing_subword_prefix.empty() || !options.end_of_word_suffix.empty();
  options.raw_bytes = input.byte_level_words && !options.byte_fallback && !has_affixes;
  input.reads_raw_bytes = options.raw_bytes;
  QUIRE_ASSIGN_OR_RETURN(const auto merges,
                         parse_merges(model, vocab, options.continuing_subword_prefix));
  const auto unk_id = options.unk_id;
  QUIRE_ASSIGN_OR_RETURN(auto bpe, BpeModel::make(std::move(vocab), merges, std::move(options)));
  return ParsedModel{std::move(bpe), true, unk_id};
}

// Parses [["piece", score], …].
Result<ParsedModel> parse_unigram(const json::object& model) {
  QUIRE_ASSIGN_OR_RETURN(const json::array* list, array_field(model, "vocab"));
  Vocab vocab;
  std::vector<double> scores;
  vocab.reserve(list->size(), list->size() * 8);
  for (const json::value& value : *list) {
    const json::array* pair = value.if_array();
    const bool good =
        pair != nullptr && pair->size() == 2 && (*pair)[0].is_string() && (*pair)[1].is_number();
    if (!good)
      return invalid_argument("vocab: expected [piece, score], got {}", json::serialize(value));
    QUIRE_RETURN_IF_ERROR(
        vocab.add(as_view((*pair)[0].get_string()), static_cast<int64_t>(scores.size())));
    scores.push_back((*pair)[1].to_number<double>());
  }
  UnigramOptions options;
  if (find_field(model, "unk_id") != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const int64_t id, int_field(model, "unk_id"));
    if (id < 0 || id >= vocab.size()) {
      return invalid_argument("'unk_id': expected an id below {}, got {}", vocab.size(), id);
    }
    options.unk_id = static_cast<TokenId>(id);
  }
  QUIRE_ASSIGN_OR_RETURN(options.byte_fallback, bool_field_or(model, "byte_fallback", false));
  const auto unk_id = options.unk_id;
  QUIRE_ASSIGN_OR_RETURN(
      auto unigram, UnigramModel::make(std::move(vocab), std::move(scores), std::move(options)));
  return ParsedModel{std::move(unigram), false, unk_id};
}

Result<ParsedModel> parse_wordpiece(const json::object& model) {
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, parse_vocab(model));
  WordPieceOptions options;
  QUIRE_ASSIGN_OR_RETURN(options.unk_id, parse_unk_token(model, vocab));
  QUIRE_ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                         string_field_or(model, "continuing_subword_prefix", "##"));
  QUIRE_ASSIGN_OR_RETURN(options.max_input_chars_per_word,
                         int_field_or(model, "max_input_chars_per_word", 100));
  const auto unk_id = options.unk_id;
  QUIRE_ASSIGN_OR_RETURN(auto wordpiece,
                         WordPieceModel::make(std::move(vocab), std::move(options)));
  return ParsedModel{std::move(wordpiece), false, unk_id};
}

Result<ParsedModel> parse_word_level(const json::object& model) {
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, parse_vocab(model));
  QUIRE_ASSIGN_OR_RETURN(const auto unk_id, parse_unk_token(model, vocab));
  QUIRE_ASSIGN_OR_RETURN(auto words, WordLevelModel::make(std::move(vocab), unk_id));
  return ParsedModel{std::move(words), false, unk_id};
}

// Returns the type of an older file that does not name it, by its fields.
std::string guess_type(const json::object& model) {
  if (find_field(model, "merges") != nullptr) return "BPE";
  if (const json::value* vocab = find_field(model, "vocab");
      vocab != nullptr && vocab->is_array()) {
    return "Unigram";
  }
  return find_field(model, "max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel";
}

}  // namespace

Result<ParsedModel> parse_model(const json::value& value, ModelInput& input) {
  QUIRE_ASSIGN_OR_RETURN(const json::object* model, as_object(value, "model"));
  QUIRE_ASSIGN_OR_RETURN(const std::string type,
                         string_field_or(*model, "type", guess_type(*model)));
  if (type == "BPE") return parse_bpe(*model, input);
  if (type == "Unigram") return parse_unigram(*model);
  if (type == "WordPiece") return parse_wordpiece(*model);
  if (type == "WordLevel") return parse_word_level(*model);
  return unimplemented("model: unknown type '{}'", type);
}

}  // namespace quire
