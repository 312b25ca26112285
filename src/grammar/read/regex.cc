#include "grammar/read/regex.h"

#include <algorithm>
#include <charconv>

#include "tokenizer/unicode/unicode.h"

namespace quire::grammar {
namespace {

constexpr int kMaxNesting = 100;
constexpr size_t kMaxPatternBytes = 64 * 1024;

// A Piece holds the texts that a part of a pattern matches, by position: expr[starts][ends] matches
// only at the start of the text (if starts) and only at its end (if ends).
struct Piece {
  ExprId expr[2][2] = {{ExprStore::kNone, ExprStore::kNone}, {ExprStore::kNone, ExprStore::kNone}};
  bool has_anchor() const { return expr[0][1] != 0 || expr[1][0] != 0 || expr[1][1] != 0; }
};

class RegexParser {
 public:
  RegexParser(Encoder& encoder, std::string_view pattern, const RegexOptions& options)
      : encoder_(encoder), store_(encoder.store()), text_(pattern), options_(options) {}

  Result<ExprId> parse() {
    if (text_.size() > kMaxPatternBytes) {
      return invalid_argument("regex: expected at most {} bytes, got {}", kMaxPatternBytes,
                              text_.size());
    }
    QUIRE_ASSIGN_OR_RETURN(const Piece piece, alternatives(0));
    if (at_ < text_.size()) return error("an unmatched ')'");
    const bool is_search = options_.match == RegexMatch::kSearch;
    const ExprId around = is_search ? encoder_.any_text() : ExprStore::kEmpty;
    std::vector<ExprId> parts;
    for (const int starts : {0, 1}) {
      for (const int ends : {0, 1}) {
        const ExprId sequence[] = {starts ? ExprStore::kEmpty : around, piece.expr[starts][ends],
                                   ends ? ExprStore::kEmpty : around};
        parts.push_back(store_.concat(sequence));
      }
    }
    return store_.any_of(std::move(parts));
  }

 private:
  Status error(std::string_view what) const {
    return invalid_argument("regex: {} at byte {}", what, at_);
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view token) {
    if (!text_.substr(std::min(at_, text_.size())).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  static Piece plain(ExprId expr) {
    Piece piece;
    piece.expr[0][0] = expr;
    return piece;
  }

  Piece concat(const Piece& a, const Piece& b) {
    std::vector<ExprId> parts[2][2];
    for (int i = 0; i < 16; ++i) {
      const int a_starts = i & 1, a_ends = (i >> 1) & 1, b_starts = (i >> 2) & 1, b_ends = i >> 3;
      ExprId left = a.expr[a_starts][a_ends], right = b.expr[b_starts][b_ends];
      if (left == ExprStore::kNone || right == ExprStore::kNone) continue;
      // Before a start and behind an end there can only be the empty string.
      if (b_starts) left = store_.nullable(left) ? ExprStore::kEmpty : ExprStore::kNone;
      if (a_ends) right = store_.nullable(right) ? ExprStore::kEmpty : ExprStore::kNone;
      parts[a_starts | b_starts][a_ends | b_ends].push_back(store_.concat(left, right));
    }
    Piece out;
    for (int s = 0; s < 2; ++s) {
      for (int e = 0; e < 2; ++e) out.expr[s][e] = store_.any_of(std::move(parts[s][e]));
    }
    return out;
  }

  Result<Piece> alternatives(int depth) {
    if (depth > kMaxNesting) return error("nesting that is too deep");
    std::vector<ExprId> parts[2][2];
    do {
      QUIRE_ASSIGN_OR_RETURN(const Piece piece, sequence(depth));
      for (int s = 0; s < 2; ++s) {
        for (int e = 0; e < 2; ++e) parts[s][e].push_back(piece.expr[s][e]);
      }
    } while (take("|"));
    Piece out;
    for (int s = 0; s < 2; ++s) {
      for (int e = 0; e < 2; ++e) out.expr[s][e] = store_.any_of(std::move(parts[s][e]));
    }
    return out;
  }

  struct LookAhead {
    size_t place;  // index among the items of its sequence
    ExprId expr;   // the texts that it allows, up to their end
  };

  Result<Piece> sequence(int depth) {
    std::vector<Piece> items;
    std::vector<LookAhead> look_aheads;
    while (!at_end() && peek() != '|' && peek() != ')') {
      const bool is_negative = text_.substr(at_).starts_with("(?!");
      if (take("(?=") || take("(?!")) {
        if (depth > 0) return error("a look-ahead inside a group");
        QUIRE_ASSIGN_OR_RETURN(const ExprId expr, look_ahead(depth, is_negative));
        look_aheads.push_back({items.size(), expr});
        continue;
      }
      QUIRE_ASSIGN_OR_RETURN(Piece piece, atom(depth));
      QUIRE_ASSIGN_OR_RETURN(piece, quantified(piece));
      items.push_back(piece);
    }
    Piece out = plain(ExprStore::kEmpty);
    for (size_t i = items.size() + 1; i-- > 0;) {
      for (const LookAhead& ahead : look_aheads) {
        if (ahead.place == i) out = restricted(out, ahead.expr);
      }
      if (i > 0) out = concat(items[i - 1], out);
    }
    return out;
  }

  // Restricts `rest`, which extends to the end of the text, to the texts `allowed`.
  Piece restricted(const Piece& rest, ExprId allowed) {
    const ExprId after =
        options_.match == RegexMatch::kSearch ? encoder_.any_text() : ExprStore::kEmpty;
    Piece out;
    for (int s = 0; s < 2; ++s) {
      const ExprId whole = store_.any_of({store_.concat(rest.expr[s][0], after), rest.expr[s][1]});
      out.expr[s][1] = store_.all_of({whole, allowed});
    }
    return out;
  }

  Result<ExprId> look_ahead(int depth, bool is_negative) {
    QUIRE_ASSIGN_OR_RETURN(const Piece piece, alternatives(depth + 1));
    if (!take(")")) return error("expected ')'");
    if (piece.expr[1][0] != 0 || piece.expr[1][1] != 0) return error("'^' in a look-ahead");
    const ExprId expr =
        store_.any_of({store_.concat(piece.expr[0][0], encoder_.any_text()), piece.expr[0][1]});
    return is_negative ? store_.complement(expr) : expr;
  }

  Result<Piece> atom(int depth) {
    const char c = peek();
    Piece piece;
    if (c == '^' || c == '$') {
      ++at_;
      piece.expr[c == '^'][c == '$'] = ExprStore::kEmpty;
      return piece;
    }
    if (c == '(') {
      if (take("(?<=") || take("(?<!")) return error("look-behind is not supported");
      if (!take("(?:")) {
        ++at_;
        if (take("?<") || take("?P<")) {
          const size_t end = text_.find('>', at_);
          if (end == text_.npos) return error("expected '>' after a group's name");
          at_ = end + 1;
        } else if (peek() == '?') {
          return error("an unknown kind of group");
        }
      }
      QUIRE_ASSIGN_OR_RETURN(piece, alternatives(depth + 1));
      if (!take(")")) return error("expected ')'");
      return piece;
    }
    if (c == '*' || c == '+' || c == '?') return error("nothing to repeat");
    CharSet set;
    if (c == '.') {
      ++at_;
      set = ecma_dot();
    } else if (c == '[') {
      QUIRE_ASSIGN_OR_RETURN(set, char_class());
    } else if (c == '\\') {
      QUIRE_ASSIGN_OR_RETURN(set, escape(/*in_class=*/false));
    } else {
      set = one(next_char());
    }
    if (options_.ignore_case) set.add_ascii_case_variants();
    return plain(encoder_.chars(set));
  }

  static CharSet one(char32_t c) { return {{c, c}}; }
  char32_t next_char() {
    const CodePoint c = decode_utf8(text_.substr(at_));
    at_ += c.size;
    return c.value;
  }

  struct Count {
    uint32_t min = 0, max = 0;
  };
  // Parses {m}, {m,} or {m,n}; anything else is literal text.
  std::optional<Count> braces() {
    const std::string_view rest = text_.substr(at_);
    const size_t end = rest.find('}');
    if (!rest.starts_with('{') || end == rest.npos) return std::nullopt;
    const std::string_view inside = rest.substr(1, end - 1);
    const size_t comma = std::min(inside.find(','), inside.size());
    const auto number = [](std::string_view digits) -> std::optional<uint32_t> {
      uint32_t value = 0;
      const auto [stop, code] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (digits.empty() || stop != digits.data() + digits.size()) return std::nullopt;
      return code == std::errc() ? value : kUnbounded - 1;
    };
    const auto min = number(inside.substr(0, comma));
    if (!min) return std::nullopt;
    Count count{*min, *min};
    if (comma < inside.size()) {
      const std::string_view upper = inside.substr(comma + 1);
      const auto max = upper.empty() ? std::optional(kUnbounded) : number(upper);
      if (!max) return std::nullopt;
      count.max = *max;
    }
    at_ += end + 1;
    return count;
  }

  Result<Piece> quantified(Piece piece) {
    for (;;) {
      Count count;
      if (take("*")) {
        count = {0, kUnbounded};
      } else if (take("+")) {
        count = {1, kUnbounded};
      } else if (take("?")) {
        count = {0, 1};
      } else if (const auto braced = braces()) {
        count = *braced;
      } else {
        return piece;
      }
      take("?");  // laziness does not change the language
      if (count.min > count.max) return error("a repetition whose minimum exceeds its maximum");
      if (piece.has_anchor()) {
        if (count.max > 1) return error("an anchor inside a repetition");
        if (count.max == 0) piece = plain(ExprStore::kEmpty);
        if (count.min == 0) piece.expr[0][0] = store_.optional(piece.expr[0][0]);
      } else {
        piece = plain(store_.repeat(piece.expr[0][0], count.min, count.max));
      }
    }
  }

  std::optional<char32_t> hex(size_t digits) {
    uint32_t value = 0;
    const std::string_view text = text_.substr(at_, digits);
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() != digits || end != text.data() + digits) return std::nullopt;
    at_ += digits;
    return value;
  }

  // Parses what follows \u: XXXX, a surrogate pair, or {X…}.
  Result<CharSet> unicode_escape() {
    if (take("{")) {
      const size_t end = text_.find('}', at_);
      const auto value = end == text_.npos || end - at_ > 6 ? std::nullopt : hex(end - at_);
      if (!value || *value > kMaxCodePoint || !take("}")) return error("a bad \\u{...}");
      return one(*value);
    }
    const auto high = hex(4);
    if (!high) return one('u');
    const size_t after_high = at_;
    if (*high >= 0xD800 && *high < 0xDC00 && take("\\u")) {
      const auto low = hex(4);
      if (low && *low >= 0xDC00 && *low < 0xE000) {
        return one(0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00));
      }
      at_ = after_high;
    }
    return one(*high);
  }

  Result<CharSet> escape(bool in_class) {
    ++at_;
    if (at_end()) return error("a pattern that ends in a backslash");
    const char32_t c = next_char();
    switch (c) {
      case 'd':
      case 'w':
      case 's':
        return ecma_class(static_cast<char>(c));
      case 'D':
      case 'W':
      case 'S':
        return ecma_class(static_cast<char>(c - 'A' + 'a')).complement();
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one(0);
      case 'x': {
        const auto value = hex(2);
        return one(value.value_or('x'));
      }
      case 'u':
        return unicode_escape();
      case 'c': {
        const char letter = peek();
        if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))) {
          return error("\\c without a letter");
        }
        ++at_;
        return one(static_cast<char32_t>(letter % 32));
      }
      case 'p':
      case 'P':
        return property(c == 'P');
      case 'b':
        if (in_class) return one('\b');
        [[fallthrough]];
      case 'B':
        return error("word boundaries are not supported");
      case 'k':
        return error("back references are not supported");
      default:
        if (c >= '1' && c <= '9') return error("back references are not supported");
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
          return error("an escape of a letter that ECMA-262 does not define");
        }
        return one(c);
    }
  }

  Result<CharSet> property(bool is_negated) {
    const size_t end = text_.find('}', at_);
    if (!take("{") || end == text_.npos) return error("\\p without {NAME}");
    std::string_view name = text_.substr(at_, end - at_);
    for (const std::string_view key : {"General_Category=", "gc="}) {
      if (name.starts_with(key)) name.remove_prefix(key.size());
    }
    const auto set = unicode_property(name);
    if (!set) return error("a Unicode property that is not supported");
    at_ = end + 1;
    return is_negated ? set->complement() : *set;
  }

  Result<CharSet> char_class() {
    ++at_;
    const bool is_negated = take("^");
    CharSet out;
    while (!take("]")) {
      if (at_end()) return error("expected ']'");
      QUIRE_ASSIGN_OR_RETURN(const CharSet first, class_atom());
      const bool is_range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      const auto single = [](const CharSet& set) {
        return set.ranges().size() == 1 && set.ranges()[0].lo == set.ranges()[0].hi;
      };
      if (!is_range || !single(first)) {
        out.add(first);
        continue;
      }
      ++at_;
      QUIRE_ASSIGN_OR_RETURN(const CharSet last, class_atom());
      if (!single(last)) {  // [a-\d] means its three parts
        out.add(first);
        out.add(one('-'));
        out.add(last);
        continue;
      }
      const CharRange range{first.ranges()[0].lo, last.ranges()[0].hi};
      if (range.lo > range.hi) return error("a range out of order");
      out.add(range);
    }
    if (options_.ignore_case) out.add_ascii_case_variants();
    return is_negated ? out.complement() : out;
  }

  Result<CharSet> class_atom() {
    if (peek() == '\\') return escape(/*in_class=*/true);
    if (at_end()) return error("expected ']'");
    return one(next_char());
  }

  Encoder& encoder_;
  ExprStore& store_;
  std::string_view text_;
  RegexOptions options_;
  size_t at_ = 0;
};

}  // namespace

Result<ExprId> regex_expr(Encoder& encoder, std::string_view pattern, const RegexOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const ExprId expr, RegexParser(encoder, pattern, options).parse());
  QUIRE_RETURN_IF_ERROR(encoder.store().status());
  return expr;
}

}  // namespace quire::grammar
