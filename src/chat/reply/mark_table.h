// A MarkTable encodes marker tokens inside text. The marks of a reply (<tool_call>, [TOOL_CALLS] …)
// are single tokens in most vocabularies, and the same characters from other tokens are plain text.
// So the text that the parser reads has, in the place of such a token, a code of two bytes that no
// UTF-8 text contains. The parser's patterns are written with the same codes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace quire {

// A token that the vocabulary has in addition to its model's pieces.
struct MarkToken {
  TokenId id = 0;
  std::string text;
  bool is_special = false;
};

// The table does not change after it is made, so any thread may use it.
class MarkTable {
 public:
  // Makes a table without tokens: all marks are text.
  MarkTable() = default;
  // Makes codes for those of `tokens` that occur in one of `patterns`.
  MarkTable(std::span<const MarkToken> tokens, std::span<const std::string> patterns);

  // Returns a pattern with its tokens replaced by codes, from left to right. The longest token that
  // fits is used.
  std::string encode(std::string_view pattern) const;
  // Appends the text with its codes replaced by the tokens' texts; dropped tokens have none.
  void decode(std::string_view encoded, std::string& out) const;
  std::string decoded(std::string_view encoded) const;
  // Does the same for JSON. A mark in JSON can only be inside a string, so its quotes are escaped.
  void decode_json(std::string_view encoded, std::string& out) const;

  struct Code {
    std::string_view code;
    std::string_view text;
  };
  // Returns the code of a mark. With `drops_special` it also returns one for other special tokens,
  // which decodes to no text.
  std::optional<Code> find(TokenId id, bool drops_special) const;

 private:
  struct Mark {
    std::string text;
    std::string code;
    std::string json;  // its text inside a JSON string
  };
  void decode(std::string_view encoded, std::string Mark::*form, std::string& out) const;
  std::vector<Mark> marks_;                           // by code; 0 is the dropped token
  std::unordered_map<TokenId, size_t> mark_of_;       // index in marks_
  std::unordered_map<TokenId, std::string> dropped_;  // special tokens that are no marks
};

}  // namespace quire
