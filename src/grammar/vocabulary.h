// Vocabulary holds a tokenizer's tokens as a byte trie, and the masks that grammars share.
//
// Only its cache of masks changes, and that locks itself: one Vocabulary may be shared by all
// requests and threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "grammar/mask_cache.h"
#include "grammar/rules/hash.h"

namespace quire {
class Tokenizer;
}

namespace quire::grammar {

struct VocabularyParts {
  // Bytes by token id. Those of special tokens, and of added tokens that are marks (<tool_call>,
  // [ARGS]), are kSpecialTokenMark and their text. Empty for unused ids, which no grammar allows.
  std::vector<std::string> token_bytes;
  std::vector<TokenId> eos_ids;  // allowed exactly where the text is complete
  int32_t padded_size = 0;       // width of the logits, at least token_bytes.size()
  size_t mask_cache_bytes = 64 << 20;
};

// A node of the trie, which is stored in depth-first order: node 0 is the root, and the nodes below
// node `i` are i + 1 up to skip[i].
struct TrieNode {
  uint32_t skip = 0;
  // Index in tokens(); this node's tokens end where the next node's begin.
  uint32_t first_token = 0;
  uint16_t depth = 0;
  uint8_t byte = 0;
  uint8_t height = 0;  // of the subtree below
};

// A set of ASCII characters, in which NUL stands for all bytes outside ASCII.
class AsciiSet {
 public:
  void add(uint8_t byte) {
    const uint8_t bit = byte < 128 ? byte : 0;
    words_[bit / 64] |= uint64_t{1} << (bit % 64);
  }
  void add(const AsciiSet& other) {
    for (size_t i = 0; i < 2; ++i) words_[i] |= other.words_[i];
  }
  bool has(uint8_t character) const {
    return (words_[character / 64] >> (character % 64) & 1) != 0;
  }
  bool has_all(const AsciiSet& other) const {
    return (other.words_[0] & ~words_[0]) == 0 && (other.words_[1] & ~words_[1]) == 0;
  }

 private:
  std::array<uint64_t, 2> words_{};
};

class Vocabulary {
 public:
  explicit Vocabulary(VocabularyParts parts);
  // `eos_ids` are those of the model's generation config and its template's end of turn.
  Vocabulary(const Tokenizer& tokenizer, std::vector<TokenId> eos_ids, int32_t padded_size);

  int32_t padded_size() const { return parts_.padded_size; }
  size_t mask_words() const { return (static_cast<size_t>(parts_.padded_size) + 31) / 32; }
  // Returns the bytes, or an empty view for ids that are unused, out of range, end a sequence or
  // are longer than kCountHorizon.
  std::string_view token_bytes(TokenId id) const;
  bool is_eos(TokenId id) const;
  const std::vector<TokenId>& eos_ids() const { return parts_.eos_ids; }
  // Returns the texts of special tokens, without the mark.
  std::vector<std::string> special_tokens() const;

  // Returns the trie's nodes and one more, whose first_token is the end of the last node's tokens.
  const std::vector<TrieNode>& trie() const { return trie_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  // Returns, for each node, the set of bytes in the nodes below it.
  const std::vector<AsciiSet>& bytes_below() const { return bytes_below_; }
  size_t max_depth() const { return max_depth_; }
  // Sets the bits of the tokens at the nodes from `begin` up to `end`.
  void allow_tokens(uint32_t begin, uint32_t end, std::span<uint32_t> row) const {
    for (uint32_t t = trie_[begin].first_token; t < trie_[end].first_token; ++t) {
      row[static_cast<size_t>(tokens_[t]) / 32] |= 1U << (tokens_[t] % 32);
    }
  }

  MaskCache& masks() const { return *masks_; }

 private:
  void build();
  VocabularyParts parts_;
  std::vector<TrieNode> trie_;
  std::vector<AsciiSet> bytes_below_;
  std::vector<TokenId> tokens_;  // in the order of their bytes
  size_t max_depth_ = 0;
  std::unique_ptr<MaskCache> masks_;
};

}  // namespace quire::grammar
