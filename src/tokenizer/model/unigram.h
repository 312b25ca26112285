// UnigramModel finds the most probable way to cut a word into pieces (Viterbi).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/model/byte_trie.h"
#include "tokenizer/model/model.h"

namespace quire {

struct UnigramOptions {
  std::optional<TokenId> unk_id{};
  bool byte_fallback = false;
  // Scores are added in float, as in SentencePiece, so that near-ties give the same pieces.
  bool single_precision = false;
  std::vector<TokenId> user_defined{};  // preferred over any pieces inside them
  std::vector<bool> is_usable{};        // by id: whether a path may contain it; empty means all may
};

// Runs of unknown characters become one id. The time is linear in the length of the word times that
// of the longest piece.
class UnigramModel final : public Model {
 public:
  // `scores` are log probabilities by id. Returns an error if they do not fit the vocabulary or if
  // the unknown id is not in it.
  static Result<std::unique_ptr<UnigramModel>> make(Vocab vocab, std::vector<double> scores,
                                                    UnigramOptions options);

  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;

 private:
  UnigramModel(Vocab vocab, std::vector<double> scores, UnigramOptions options);
  void fill_lattice(std::string_view word, EncodeScratch& s) const;
  void add_unknown(std::string_view text, std::vector<TokenId>& out) const;

  std::vector<double> scores_;
  UnigramOptions options_;
  ByteTrie trie_;
  std::array<TokenId, 256> byte_ids_{};
  double unk_score_ = 0;
};

}  // namespace quire
