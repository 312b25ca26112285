#include "tokenizer/model/wordpiece.h"

#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

int64_t count_chars(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

void insert_without_prefix(ByteTrie& trie, std::string_view piece, std::string_view prefix,
                           TokenId id) {
  if (piece.size() > prefix.size() && piece.starts_with(prefix)) {
    trie.insert(piece.substr(prefix.size()), static_cast<uint32_t>(id));
  }
}

}  // namespace

WordPieceModel::WordPieceModel(Vocab vocab, WordPieceOptions options)
    : Model(std::move(vocab)), options_(std::move(options)) {}

Result<std::unique_ptr<WordPieceModel>> WordPieceModel::make(Vocab vocab,
                                                             WordPieceOptions options) {
  if (options.unk_id && !vocab.contains(*options.unk_id)) {
    return invalid_argument("WordPiece: the unknown token is not in the vocabulary");
  }
  std::unique_ptr<WordPieceModel> model(new WordPieceModel(std::move(vocab), std::move(options)));
  const WordPieceOptions& o = model->options_;
  for (TokenId id = 0; id < model->vocab_.size(); ++id) {
    const std::string_view piece = model->vocab_.piece(id);
    insert_without_prefix(model->initial_, piece, o.initial_prefix, id);
    insert_without_prefix(model->continuing_, piece, o.continuing_subword_prefix, id);
  }
  return model;
}

void WordPieceModel::encode(std::string_view word, EncodeScratch&,
                            std::vector<TokenId>& out) const {
  const size_t before = out.size();
  bool covered = count_chars(word) <= options_.max_input_chars_per_word;
  for (size_t begin = 0; covered && begin < word.size();) {
    const auto match = (begin == 0 ? initial_ : continuing_).longest_prefix(word.substr(begin));
    if (match.length == 0) {
      covered = false;
    } else {
      out.push_back(static_cast<TokenId>(match.value));
      begin += match.length;
    }
  }
  if (covered) return;
  out.resize(before);
  if (options_.unk_id) out.push_back(*options_.unk_id);
}

Result<std::unique_ptr<WordLevelModel>> WordLevelModel::make(Vocab vocab,
                                                             std::optional<TokenId> unk_id) {
  if (unk_id && !vocab.contains(*unk_id)) {
    return invalid_argument("WordLevel: the unknown token is not in the vocabulary");
  }
  return std::unique_ptr<WordLevelModel>(new WordLevelModel(std::move(vocab), unk_id));
}

void WordLevelModel::encode(std::string_view word, EncodeScratch&,
                            std::vector<TokenId>& out) const {
  const auto id = vocab_.find(word);
  if (id) {
    out.push_back(*id);
  } else if (unk_id_) {
    out.push_back(*unk_id_);
  }
}

}  // namespace quire
