// BpeModel is byte-pair encoding.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/model/byte_trie.h"
#include "tokenizer/model/flat_map.h"
#include "tokenizer/model/model.h"

namespace quire {

struct BpeOptions {
  std::optional<TokenId> unk_id{};          // if absent, unknown characters are dropped
  std::string continuing_subword_prefix{};  // before every symbol of a word but the first
  std::string end_of_word_suffix{};         // after the last symbol of a word
  bool fuse_unk = false;                    // a run of unknown characters gives one id
  bool byte_fallback = false;               // unknown characters become <0xXX> pieces
  bool ignore_merges = false;  // a word that is a piece becomes that piece, without merging
  bool raw_bytes = false;      // words are bytes; pieces are written in the byte alphabet
  std::vector<TokenId> user_defined{};  // taken whole wherever they occur, never merged
};

// The pair of the lowest rank is merged first, the leftmost among equals, until no merge applies. A
// word takes O(n log n) in its length.
class BpeModel final : public Model {
 public:
  // The pair (left, right) merges into `result`. Ranks are below 2^32 - 1.
  struct Merge {
    TokenId left = 0;
    TokenId right = 0;
    TokenId result = 0;
    uint32_t rank = 0;
  };

  // Makes a model; a later merge of the same pair replaces an earlier one.
  static Result<std::unique_ptr<BpeModel>> make(Vocab vocab, const std::vector<Merge>& merges,
                                                BpeOptions options);

  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;

 private:
  BpeModel(Vocab vocab, BpeOptions options);
  void index_bytes();
  void find_safe_boundary();
  void encode_uncached(std::string_view word, EncodeScratch& scratch,
                       std::vector<TokenId>& out) const;
  void add_symbols(std::string_view word, std::vector<TokenId>& ids) const;
  void add_raw_bytes(std::string_view word, std::vector<TokenId>& ids) const;
  bool add_byte_fallback(std::string_view character, std::vector<TokenId>& ids) const;
  uint64_t pair_at(const EncodeScratch& s, int32_t pos) const;
  void merge_short(EncodeScratch& s) const;
  void merge_long(EncodeScratch& s) const;

  BpeOptions options_;
  FlatMap64 merges_;  // (left, right) -> (rank, result)
  // The id of each byte, -1 if absent; set with raw_bytes or byte_fallback.
  std::array<TokenId, 256> byte_ids_{};
  std::unique_ptr<Vocab> raw_pieces_;  // pieces as bytes, for raw_bytes with ignore_merges
  ByteTrie user_defined_;
  bool splits_at_metaspace_ = false;  // no piece has U+2581 after another character
};

// Derives merges from pieces and scores, because SentencePiece and GGUF "llama" files have no list
// of merges. A merge is every way to cut a piece into two pieces; its rank follows from the piece's
// score, higher scores first, and equal scores share a rank.
std::vector<BpeModel::Merge> merges_from_scores(const Vocab& vocab,
                                                const std::vector<float>& scores,
                                                const std::vector<bool>& is_mergeable);

}  // namespace quire
