// AddedTokens are tokens beside a model's vocabulary; this finds where they stand in a text.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tokenizer/model/byte_trie.h"
#include "tokenizer/stages/normalizer.h"

namespace quire {

struct AddedToken {
  TokenId id = 0;
  std::string content{};
  bool single_word = false;  // found only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // looked for in normalized text
  bool special = false;      // left out by skip_special_tokens
  std::string piece{};  // what it decodes to: its normalized text if that is what is looked for
};

// The tokens are filled in while loading, and are then immutable and thread-safe.
class AddedTokens {
 public:
  // A token of the same content is replaced. An id out of range is an error.
  Status add(AddedToken token);
  // Builds the matchers; `normalizer` may be null.
  void freeze(const Normalizer* normalizer);

  const AddedToken* find(TokenId id) const;
  const AddedToken* find(std::string_view content) const;
  bool is_special(TokenId id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

  // A segment is a stretch of plain text, or one added token.
  struct Segment {
    std::string_view text;
    TokenId id = -1;  // -1: plain text
  };
  enum class Pass { kRaw, kNormalized };
  // Cuts `text` at the added tokens that are looked for in this pass, leftmost and longest first,
  // and appends to `segments`. Without `match_special` special tokens are plain text.
  void split(std::string_view text, Pass pass, bool match_special,
             std::vector<Segment>& segments) const;
  bool has(Pass pass) const { return !trie(pass).empty(); }

 private:
  const ByteTrie& trie(Pass pass) const { return pass == Pass::kRaw ? raw_ : normalized_; }

  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, size_t> by_id_;
  std::unordered_map<std::string, size_t> by_content_;
  ByteTrie raw_;
  ByteTrie normalized_;
};

}  // namespace quire
