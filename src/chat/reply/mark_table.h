// Marker tokens inside text. A reply's marks (<tool_call>, [TOOL_CALLS] …) are single tokens in
// most vocabularies, and the same characters spelled by other tokens are text. So where such a
// token stands, the text that the parser reads has a code of two bytes that no UTF-8 text holds;
// the patterns it looks for are written with the same codes.
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

// A token that the vocabulary holds beside its model's pieces.
struct MarkToken {
  TokenId id = 0;
  std::string text;
  bool is_special = false;
};

// The table does not change after it is made, so any thread may use it.
class MarkTable {
 public:
  // Without tokens: all marks are text.
  MarkTable() = default;
  // Codes for those of `tokens` that stand in one of `patterns`.
  MarkTable(std::span<const MarkToken> tokens, std::span<const std::string> patterns);

  // Returns a pattern with its tokens as codes; the longest token is taken first, from the left.
  std::string encode(std::string_view pattern) const;
  // Appends the text with its codes spelled out; dropped tokens have none.
  void decode(std::string_view encoded, std::string& out) const;
  std::string decoded(std::string_view encoded) const;
  // The same for JSON, where a mark can only stand inside a string: its quotes are escaped.
  void decode_json(std::string_view encoded, std::string& out) const;

  struct Code {
    std::string_view code;
    std::string_view text;
  };
  // Of a mark, or, with `drops_special`, of a special token that is none: its code shows no text.
  std::optional<Code> find(TokenId id, bool drops_special) const;

 private:
  struct Mark {
    std::string text;
    std::string code;
    std::string json;  // the text inside of a JSON string
  };
  void decode(std::string_view encoded, std::string Mark::*form, std::string& out) const;
  std::vector<Mark> marks_;                           // by code; 0 is the dropped token
  std::unordered_map<TokenId, size_t> mark_of_;       // index in marks_
  std::unordered_map<TokenId, std::string> dropped_;  // special tokens that are no marks
};

}  // namespace quire
