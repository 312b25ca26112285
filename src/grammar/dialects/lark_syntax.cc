#include "grammar/dialects/lark_syntax.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "grammar/rules/expr.h"
#include "tokenizer/unicode/unicode.h"

namespace quire::grammar {
namespace {

constexpr int kMaxLarkNesting = 100;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_number(char c) { return c >= '0' && c <= '9'; }

class LarkParser {
 public:
  explicit LarkParser(std::string_view text) : text_(text) {}

  Result<LarkSyntax> parse() {
    for (skip_lines(); at_ < text_.size(); skip_lines()) {
      QUIRE_RETURN_IF_ERROR(peek() == '%' ? directive() : definition());
    }
    return std::move(out_);
  }

 private:
  size_t line() const {
    const auto end = text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size()));
    return 1 + static_cast<size_t>(std::count(text_.begin(), end, '\n'));
  }
  Status error(std::string_view what) const {
    return invalid_argument("lark: line {}: {}", line(), what);
  }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void skip_blanks() {
    for (;; ++at_) {
      const bool is_comment = peek() == '#' || (peek() == '/' && peek(1) == '/');
      if (is_comment) at_ = std::min(text_.find('\n', at_), text_.size());
      if (peek() != ' ' && peek() != '\t' && peek() != '\r') return;
    }
  }
  void skip_lines() {
    for (skip_blanks(); peek() == '\n'; skip_blanks()) ++at_;
  }
  uint32_t add(LarkNode node) {
    node.line = line();
    out_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(out_.nodes.size() - 1);
  }

  Result<std::string> name() {
    const size_t begin = at_;
    if (peek() == '?' || peek() == '!') return error("'?' and '!' before names are not supported");
    while (is_letter(peek()) || (at_ > begin && is_number(peek()))) ++at_;
    if (at_ == begin) return error("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Status definition() {
    QUIRE_ASSIGN_OR_RETURN(const std::string defined, name());
    skip_blanks();
    if (peek() == '[') return error("attributes are not supported");
    if (peek() == '.') return error("priorities are not supported");
    if (peek() == '{') return error("templates are not supported");
    if (!take(":")) return error("expected ':'");
    QUIRE_ASSIGN_OR_RETURN(const uint32_t body, alternatives(0));
    if (!out_.definitions.emplace(defined, body).second) {
      return error("'" + defined + "' is defined twice");
    }
    return end_of_line();
  }

  Status end_of_line() {
    skip_blanks();
    if (at_ < text_.size() && peek() != '\n') return error("expected the end of the line");
    return {};
  }

  Status directive() {
    if (take("%ignore")) {
      QUIRE_ASSIGN_OR_RETURN(const uint32_t node, alternatives(0));
      out_.ignored.push_back(node);
      return end_of_line();
    }
    if (take("%import")) return import();
    if (take("%llguidance")) {  // options of another engine
      at_ = std::min(text_.find('\n', at_), text_.size());
      return {};
    }
    return error("expected %ignore or %import");
  }

  Status import() {
    skip_blanks();
    if (!take("common")) return error("expected an import from common");
    skip_blanks();
    if (!take(".")) return error("expected common.NAME");
    skip_blanks();
    std::vector<std::string> names;
    const bool is_list = take("(");
    do {
      skip_blanks();
      QUIRE_ASSIGN_OR_RETURN(std::string imported, name());
      names.push_back(std::move(imported));
      skip_blanks();
    } while (is_list && take(","));
    if (is_list && !take(")")) return error("expected ')'");
    std::string local = names.front();
    if (!is_list && take("->")) {
      skip_blanks();
      QUIRE_ASSIGN_OR_RETURN(local, name());
    }
    for (const std::string& imported : names) out_.imports[is_list ? imported : local] = imported;
    return end_of_line();
  }

  // Returns true at `|`. A line that begins with it continues the alternatives of the line before
  // it.
  bool next_alternative() {
    const size_t begin = at_;
    skip_lines();
    if (take("|")) return true;
    at_ = begin;
    return false;
  }

  Result<uint32_t> alternatives(int depth) {
    if (depth > kMaxLarkNesting) return error("nesting that is too deep");
    LarkNode out{.kind = LarkKind::kAlternatives};
    do {
      QUIRE_ASSIGN_OR_RETURN(const uint32_t part, intersection(depth));
      out.children.push_back(part);
    } while (next_alternative());
    return out.children.size() == 1 ? out.children[0] : add(std::move(out));
  }

  Result<uint32_t> intersection(int depth) {
    LarkNode out{.kind = LarkKind::kAnd};
    do {
      QUIRE_ASSIGN_OR_RETURN(const uint32_t part, sequence(depth));
      out.children.push_back(part);
      skip_blanks();
    } while (take("&"));
    return out.children.size() == 1 ? out.children[0] : add(std::move(out));
  }

  Result<uint32_t> sequence(int depth) {
    LarkNode out{.kind = LarkKind::kSequence};
    for (;;) {
      skip_blanks();
      if (depth > 0) skip_lines();  // within parentheses, lines do not end a rule
      const char c = peek();
      if (c == '\0' || c == '\n' || c == '|' || c == ')' || c == ']' || c == '&') break;
      if (take("->")) {  // an alias, which names what parsers build, has no effect
        skip_blanks();
        QUIRE_RETURN_IF_ERROR(name().status());
        continue;
      }
      QUIRE_ASSIGN_OR_RETURN(uint32_t part, item(depth));
      QUIRE_ASSIGN_OR_RETURN(part, quantified(part));
      out.children.push_back(part);
    }
    return out.children.size() == 1 ? out.children[0] : add(std::move(out));
  }

  Result<uint32_t> item(int depth) {
    if (take("~")) {
      if (depth > kMaxLarkNesting) return error("nesting that is too deep");
      skip_blanks();
      QUIRE_ASSIGN_OR_RETURN(const uint32_t part, item(depth + 1));
      return add({.kind = LarkKind::kNot, .children = {part}});
    }
    const bool is_group = take("(");
    const bool is_optional = !is_group && take("[");
    if (is_group || is_optional) {
      QUIRE_ASSIGN_OR_RETURN(const uint32_t part, alternatives(depth + 1));
      skip_lines();
      if (!take(is_optional ? "]" : ")")) return error("expected a closing bracket");
      if (!is_optional) return part;
      return add({.kind = LarkKind::kRepeat, .min = 0, .max = 1, .children = {part}});
    }
    if (peek() == '"') return string_or_range();
    if (peek() == '/') return regex();
    if (peek() == '<') return special();
    if (take("%json")) return json_schema();
    if (peek() == '%') return error("expected %json");
    QUIRE_ASSIGN_OR_RETURN(std::string referred, name());
    if (peek() == '{' && !is_number(peek(1)) && peek(1) != ',') {
      return error("templates are not supported");
    }
    return add({.kind = LarkKind::kName, .text = std::move(referred)});
  }

  // Returns the text between two delimiters, with its escapes.
  Result<std::string> delimited(char delimiter) {
    const size_t begin = ++at_;
    while (at_ < text_.size() && peek() != delimiter && peek() != '\n') {
      at_ += peek() == '\\' ? 2 : 1;
    }
    if (peek() != delimiter) return error(fmt::format("expected a closing {}", delimiter));
    return std::string(text_.substr(begin, at_++ - begin));
  }

  // Reads a string, whose escapes are those of JSON.
  Result<std::string> string() {
    QUIRE_ASSIGN_OR_RETURN(const std::string raw, delimited('"'));
    boost::system::error_code code;
    const boost::json::value value = boost::json::parse('"' + raw + '"', code);
    if (code) return error("an unknown escape in a string");
    return std::string(value.get_string());
  }

  Result<uint32_t> string_or_range() {
    QUIRE_ASSIGN_OR_RETURN(const std::string first, string());
    if (text_.substr(at_).starts_with("..")) {
      at_ += 2;
      if (peek() != '"') return error("expected a string behind '..'");
      QUIRE_ASSIGN_OR_RETURN(const std::string last, string());
      const CodePoint lo = decode_utf8(first), hi = decode_utf8(last);
      if (first.empty() || last.empty() || lo.size != first.size() || hi.size != last.size() ||
          lo.value > hi.value) {
        return error("expected a range of two characters");
      }
      return add({.kind = LarkKind::kRange, .min = lo.value, .max = hi.value});
    }
    std::string pattern;
    for (const char c : first) {
      if (std::string_view("\\^$.|?*+()[]{}/-").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
    const bool ignores_case = peek() == 'i' && !is_letter(peek(1)) && take("i");
    return add(
        {.kind = LarkKind::kString, .ignores_case = ignores_case, .text = std::move(pattern)});
  }

  Result<uint32_t> regex() {
    QUIRE_ASSIGN_OR_RETURN(std::string pattern, delimited('/'));
    const bool ignores_case = take("i");
    if (is_letter(peek())) return error("the flags of a regular expression: expected none or i");
    return add(
        {.kind = LarkKind::kRegex, .ignores_case = ignores_case, .text = std::move(pattern)});
  }

  Result<uint32_t> special() {
    const size_t end = text_.find('>', at_);
    const std::string text(text_.substr(at_, end == text_.npos ? end : end + 1 - at_));
    if (end == text_.npos || text.find('\n') != text.npos) return error("expected '>'");
    at_ = end + 1;
    return add({.kind = LarkKind::kSpecial, .text = text});
  }

  Result<uint32_t> json_schema() {
    skip_lines();
    boost::json::stream_parser parser;
    boost::system::error_code code;
    const size_t length = parser.write_some(text_.data() + at_, text_.size() - at_, code);
    if (code || !parser.done()) return error("%json: expected a JSON Schema");
    std::string schema(text_.substr(at_, length));
    at_ += length;
    return add({.kind = LarkKind::kJson, .text = std::move(schema)});
  }

  Result<uint32_t> quantified(uint32_t part) {
    for (;;) {
      uint32_t min = 0, max = kUnbounded;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (peek() == '{' && (is_number(peek(1)) || peek(1) == ',')) {
        QUIRE_RETURN_IF_ERROR(bounds("{", ",", "}", min, max));
      } else if (peek() == '~' && (is_number(peek(1)) || peek(1) == ' ')) {
        QUIRE_RETURN_IF_ERROR(bounds("~", "..", "", min, max));
      } else {
        return part;
      }
      part = add({.kind = LarkKind::kRepeat, .min = min, .max = max, .children = {part}});
    }
  }

  Status bounds(std::string_view open, std::string_view between, std::string_view close,
                uint32_t& min, uint32_t& max) {
    take(open);
    QUIRE_ASSIGN_OR_RETURN(min, number(0));
    max = min;
    if (take(between)) {
      QUIRE_ASSIGN_OR_RETURN(max, number(kUnbounded));
    }
    if (!take(close) || min > max) return error("expected the bounds of a repetition");
    return {};
  }
  Result<uint32_t> number(uint32_t missing) {
    skip_blanks();
    uint32_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (code == std::errc::invalid_argument) return missing;
    if (code != std::errc()) return error("a number that is too large");
    at_ += static_cast<size_t>(end - begin);
    skip_blanks();
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  LarkSyntax out_;
};

}  // namespace

bool is_terminal_name(std::string_view name) {
  const size_t first = name.find_first_not_of('_');
  return first != name.npos && name[first] >= 'A' && name[first] <= 'Z';
}

Result<LarkSyntax> parse_lark(std::string_view text) { return LarkParser(text).parse(); }

}  // namespace quire::grammar
