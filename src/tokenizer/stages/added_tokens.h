// AddedTokens holds the tokens beside a model's vocabulary and finds them in a text.
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
  bool single_word = false;  // found only if no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // looked for in normalized text
  bool special = false;      // left out of decoded text by skip_special_tokens
  std::string piece{};       // the text it decodes to; its normalized text if `normalized` is set
};

// The tokens are filled in while loading, and are then immutable and thread-safe.
class AddedTokens {
 public:
  // Adds a token or replaces the one with the same content. Returns an error for an id out of
  // range.
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
  // Cuts `text` at the added tokens that this pass looks for, leftmost and longest first, and
  // appends the segments to `segments`. If `match_special` is false, special tokens are plain text.
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
