#include "chat/jinja/parse/lexer.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "chat/jinja/value/heap.h"
#include "chat/jinja/value/numbers.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

// Turns all line ends into
//  and drops one at the very end.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(source) {}

  std::vector<Token> run() {
    try {
      while (position_ < text_.size()) root();
    } catch (Error& error) {
      if (error.line == 0) error.line = line_;
      throw;
    }
    push(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void push(TokenType type, std::string text) {
    tokens_.push_back(Token{.type = type, .line = line_, .text = std::move(text)});
  }

  void advance(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<ptrdiff_t>(position_),
                                         text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    line_starting_ = end > 0 && text_[end - 1] == '\n';
    position_ = end;
  }

  bool at(size_t position, std::string_view what) const {
    return text_.substr(position).starts_with(what);
  }

  size_t skip_space(size_t position) const {
    while (position < text_.size()) {
      size_t next = position;
      if (!is_space(next_code_point(text_, next))) break;
      position = next;
    }
    return position;
  }

  // Reads text up to the next tag, then the tag.
  void root() {
    size_t tag = position_;
    for (;; ++tag) {
      tag = text_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= text_.size()) {
        push(TokenType::kText, std::string(text_.substr(position_)));
        position_ = text_.size();
        return;
      }
      const char mark = text_[tag + 1];
      if (mark == '{' || mark == '%' || mark == '#') break;
    }
    const char mark = text_[tag + 1];
    text_before(tag, tag + 2, mark == '{');
    advance(tag);
    const size_t inside = tag + 2 + (sign_at(tag + 2) != '\0' ? 1 : 0);
    if (mark == '#') {
      comment(inside);
    } else if (const auto raw_end = mark == '%' ? raw_tag(inside, "raw") : std::nullopt) {
      raw(*raw_end);
    } else {
      push(mark == '{' ? TokenType::kPrintBegin : TokenType::kTagBegin, "");
      advance(inside);
      inside_tag(mark == '{');
    }
  }

  char sign_at(size_t position) const {
    if (position >= text_.size()) return '\0';
    return text_[position] == '-' || text_[position] == '+' ? text_[position] : '\0';
  }

  // Emits the text from position_ to `end`, stripped as the mark at `sign` and lstrip_blocks
  // require.
  void text_before(size_t end, size_t sign, bool is_print) {
    std::string_view text = text_.substr(position_, end - position_);
    if (sign_at(sign) == '-') {
      text = strip(text, Side::kRight);
    } else if (sign_at(sign) != '+' && !is_print) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || line_starting_) && strip(text.substr(line), Side::kBoth).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) push(TokenType::kText, std::string(text));
  }

  // Returns the end of a closing mark at `position`, including white space and newline; nullopt
  // when there is none.
  std::optional<size_t> closing(size_t position, std::string_view mark, bool trim,
                                bool plus) const {
    if (at(position, "-") && at(position + 1, mark)) return skip_space(position + 1 + mark.size());
    if (plus && at(position, "+") && at(position + 1, mark)) return position + 1 + mark.size();
    if (!at(position, mark)) return std::nullopt;
    const size_t end = position + mark.size();
    return trim && at(end, "\n") ? end + 1 : end;
  }

  // As in Jinja, a comment or raw tag that ends the template needs no end.
  void comment(size_t inside) {
    if (inside >= text_.size()) return advance(text_.size());
    for (size_t i = inside; i < text_.size(); ++i) {
      if (const auto end = closing(i, "#}", true, true)) return advance(*end);
    }
    fail("Missing end of comment tag");
  }

  // Reads `name` and the end of the tag after `inside`, as in "{% raw %}". For raw the newline
  // after the tag stays.
  std::optional<size_t> raw_tag(size_t inside, std::string_view name) const {
    const size_t word = skip_space(inside);
    if (!at(word, name)) return std::nullopt;
    const bool is_end = name == "endraw";
    return closing(skip_space(word + name.size()), "%}", is_end, is_end);
  }

  void raw(size_t begin) {
    advance(begin);
    if (begin >= text_.size()) return;
    for (size_t i = text_.find("{%", begin); i != std::string_view::npos;
         i = text_.find("{%", i + 2)) {
      const size_t inside = i + 2 + (sign_at(i + 2) != '\0' ? 1 : 0);
      if (const auto end = raw_tag(inside, "endraw")) {
        text_before(i, i + 2, false);
        return advance(*end);
      }
    }
    fail("Missing end of raw directive");
  }

  void inside_tag(bool is_print) {
    std::string open;  // the expected closing brackets
    while (true) {
      if (open.empty()) {
        const auto end = is_print ? closing(position_, "}}", false, false)
                                  : closing(position_, "%}", true, true);
        if (end) {
          push(is_print ? TokenType::kPrintEnd : TokenType::kTagEnd, "");
          return advance(*end);
        }
      }
      if (position_ >= text_.size()) fail("unexpected end of template inside a tag");
      const size_t space = skip_space(position_);
      if (space > position_) {
        advance(space);
        continue;
      }
      const char c = text_[position_];
      if (is_digit_char(c)) {
        number();
      } else if (c == '"' || c == '\'') {
        string(c);
      } else if (const size_t end = name_end(); end > position_) {
        push(TokenType::kName, std::string(text_.substr(position_, end - position_)));
        advance(end);
      } else {
        operation(open);
      }
    }
  }

  size_t name_end() const {
    size_t end = position_;
    while (end < text_.size()) {
      size_t next = end;
      const char32_t code = next_code_point(text_, next);
      const bool fits = code < 0x80
                            ? code == '_' || (code >= '0' && code <= '9') ||
                                  (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')
                            : is_alpha(code) || is_numeric(code);
      if (!fits) break;
      end = next;
    }
    return end;
  }

  // Single underscores may stand between digits.
  size_t digits_end(size_t i) const {
    while (i < text_.size() &&
           (is_digit_char(text_[i]) || (text_[i] == '_' && i > 0 && is_digit_char(text_[i - 1]) &&
                                        i + 1 < text_.size() && is_digit_char(text_[i + 1])))) {
      ++i;
    }
    return i;
  }

  std::optional<size_t> float_end() const {
    if (position_ > 0 && text_[position_ - 1] == '.') return std::nullopt;  // a.1.5 is no float
    size_t i = digits_end(position_);
    bool is_float = false;
    if (at(i, ".") && i + 1 < text_.size() && is_digit_char(text_[i + 1])) {
      i = digits_end(i + 1);
      is_float = true;
    }
    if (i < text_.size() && (text_[i] | 0x20) == 'e') {
      const size_t exponent = i + 1 + (sign_at(i + 1) != '\0' ? 1 : 0);
      if (exponent < text_.size() && is_digit_char(text_[exponent])) {
        i = digits_end(exponent);
        is_float = true;
      }
    }
    return is_float ? std::optional(i) : std::nullopt;
  }

  size_t integer_end() const {
    const char mark =
        position_ + 1 < text_.size() ? static_cast<char>(text_[position_ + 1] | 0x20) : '\0';
    const std::string_view digits = mark == 'x'   ? "0123456789abcdefABCDEF_"
                                    : mark == 'o' ? "01234567_"
                                                  : "01_";
    if (text_[position_] == '0' && (mark == 'x' || mark == 'o' || mark == 'b')) {
      size_t end = std::min(text_.find_first_not_of(digits, position_ + 2), text_.size());
      while (end > position_ + 2 && text_[end - 1] == '_') --end;
      if (end > position_ + 2) return end;
    }
    if (text_[position_] != '0') return digits_end(position_);
    size_t end = position_ + 1;
    while (end < text_.size() && text_[end] == '0') ++end;
    return end;
  }

  void number() {
    if (const auto end = float_end()) {
      push(TokenType::kFloat, "");
      tokens_.back().real = parse_real(text_.substr(position_, *end - position_)).value_or(0);
      return advance(*end);
    }
    const size_t end = integer_end();
    push(TokenType::kInteger, "");
    tokens_.back().integer = parse_integer(text_.substr(position_, end - position_), 0).value_or(0);
    advance(end);
  }

  void string(char quote) {
    size_t i = position_ + 1;
    std::string out;
    while (i < text_.size() && text_[i] != quote) {
      if (text_[i] == '\\' && i + 1 < text_.size()) {
        i = escape(i + 1, out);
      } else {
        out += text_[i++];
      }
    }
    if (i >= text_.size())
      fail("unexpected char {} at {}", quoted(std::string(1, quote)), position_);
    push(TokenType::kString, std::move(out));
    advance(i + 1);
  }

  // Reads the escape after a backslash as Python does. An unknown one stays as it is.
  size_t escape(size_t i, std::string& out) const {
    constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    const char c = text_[i];
    if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
      out += kTo[simple];
      return i + 1;
    }
    if (c == '\n') return i + 1;
    if (c >= '0' && c <= '7') {
      char32_t code = 0;
      size_t end = i;
      for (; end < text_.size() && end < i + 3 && text_[end] >= '0' && text_[end] <= '7'; ++end) {
        code = code * 8 + static_cast<char32_t>(text_[end] - '0');
      }
      append_code_point(out, code);
      return end;
    }
    const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') fail("\\N{{...}} in a string is not supported");
    if (count == 0) {
      out += '\\';
      return i;
    }
    const std::string digits(text_.substr(i + 1, count));
    if (digits.size() != count ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      fail("truncated \\{} escape in a string", c);
    }
    const unsigned long code = std::strtoul(digits.c_str(), nullptr, 16);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      fail("illegal Unicode character in a string");
    append_code_point(out, static_cast<char32_t>(code));
    return i + 1 + count;
  }

  void operation(std::string& open) {
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    const std::string_view rest = text_.substr(position_);
    size_t size = 0;
    for (const std::string_view two : kTwo) {
      if (rest.starts_with(two)) size = 2;
    }
    if (size == 0 &&
        std::string_view("+-/*%~[](){}><=.:|,;").find(rest[0]) != std::string_view::npos)
      size = 1;
    if (size == 0) {
      size_t end = position_;
      next_code_point(text_, end);
      fail("unexpected char {} at {}", quoted(text_.substr(position_, end - position_)), position_);
    }
    const char c = rest[0];
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail("unexpected '{}'", c);
      if (open.back() != c) fail("unexpected '{}', expected '{}'", c, open.back());
      open.pop_back();
    }
    push(TokenType::kOperator, std::string(rest.substr(0, size)));
    advance(position_ + size);
  }

  std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  const std::string normalized = normalize_newlines(source);
  return Lexer(normalized).run();
}

}  // namespace quire::jinja
