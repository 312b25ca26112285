// These models are WordPiece (BERT) and the lookup of whole words.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/model/byte_trie.h"
#include "tokenizer/model/model.h"

namespace quire {

struct WordPieceOptions {
  std::optional<TokenId> unk_id{};
  std::string continuing_subword_prefix = "##";  // how pieces inside a word are written
  std::string initial_prefix{};  // how pieces at a word's start are written (GGUF: U+2581)
  int64_t max_input_chars_per_word = 100;
};

// WordPiece takes the longest piece first, from left to right. A word that pieces cannot cover, or
// that is too long, becomes the unknown token.
class WordPieceModel final : public Model {
 public:
  static Result<std::unique_ptr<WordPieceModel>> make(Vocab vocab, WordPieceOptions options);
  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;

 private:
  WordPieceModel(Vocab vocab, WordPieceOptions options);
  WordPieceOptions options_;
  ByteTrie initial_;
  ByteTrie continuing_;
};

// WordLevel looks each word up as a whole: it is a piece or the unknown token.
class WordLevelModel final : public Model {
 public:
  static Result<std::unique_ptr<WordLevelModel>> make(Vocab vocab, std::optional<TokenId> unk_id);
  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;

 private:
  WordLevelModel(Vocab vocab, std::optional<TokenId> unk_id)
      : Model(std::move(vocab)), unk_id_(unk_id) {}
  std::optional<TokenId> unk_id_;
};

}  // namespace quire
