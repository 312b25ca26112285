// An Encoder writes characters as byte expressions: in plain UTF-8, or in all spellings that a JSON
// string allows.
//
// In JSON, `"`, `\` and control characters must be escaped; `/`, DEL and characters outside ASCII
// may be escaped or not. Other ASCII characters are never accepted as \uXXXX: generated text does
// not contain them, and names stay easy to distinguish.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "grammar/rules/char_set.h"
#include "grammar/rules/expr.h"

namespace quire::grammar {

// The first byte of special tokens' bytes, which never occurs in UTF-8. So a special token is never
// part of text: a grammar allows it only where it names it.
inline constexpr char kSpecialTokenMark = '\xFF';

enum class TextForm { kPlain, kJsonString };

class Encoder {
 public:
  Encoder(ExprStore& store, TextForm form) : store_(store), form_(form) {}

  ExprStore& store() { return store_; }
  ExprId chars(const CharSet& set);
  ExprId any_char() { return chars(CharSet::all()); }
  ExprId any_text() { return store_.star(any_char()); }
  // Returns all spellings of `text`, which is UTF-8.
  ExprId text(std::string_view text);

 private:
  ExprId utf8(const CharSet& set);
  ExprId escapes(const CharSet& set);
  ExprId unicode_escapes(const CharSet& set);
  struct Digit;
  ExprId sequence_range(std::span<const Digit> digits);
  ExprId digit(const Digit& digit, uint32_t lo, uint32_t hi);

  ExprStore& store_;
  TextForm form_;
  std::map<std::vector<CharRange>, ExprId> known_;
};

// Returns one canonical spelling of `text` inside a JSON string, that of
// json.dumps(ensure_ascii=False).
std::string json_escaped(std::string_view text);

}  // namespace quire::grammar
