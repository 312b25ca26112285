#include "grammar/read/ebnf.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "grammar/rules/encoding.h"
#include "tokenizer/unicode/unicode.h"

namespace quire::grammar {
namespace {

constexpr int kMaxEbnfNesting = 100;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

class EbnfParser {
 public:
  EbnfParser(ExprStore& store, Rules& rules, std::string_view text)
      : store_(store), rules_(rules), encoder_(store, TextForm::kPlain), text_(text) {}

  Result<RuleId> parse() {
    skip_blanks(true);
    while (at_ < text_.size()) {
      QUIRE_ASSIGN_OR_RETURN(const std::string name, rule_name());
      skip_blanks(true);
      if (!take("::=")) return error("expected '::='");
      QUIRE_ASSIGN_OR_RETURN(const Fragment body, alternatives(0));
      Named& rule = named(name);
      if (rule.is_defined) return error("the rule '" + name + "' is defined twice");
      rule.is_defined = true;
      rules_.define(rule.id, body);
      skip_blanks(true);
    }
    for (const auto& [name, rule] : names_) {
      if (!rule.is_defined) return invalid_argument("ebnf: the rule '{}' is not defined", name);
    }
    if (!names_.contains("root")) return invalid_argument("ebnf: expected a rule 'root'");
    return names_["root"].id;
  }

 private:
  struct Named {
    RuleId id = 0;
    bool is_defined = false;
  };
  Named& named(const std::string& name) {
    const auto [it, is_new] = names_.try_emplace(name);
    if (is_new) it->second.id = rules_.add_rule();
    return it->second;
  }

  Status error(std::string_view what) const {
    const auto end = text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size()));
    return invalid_argument("ebnf: {} at line {}", what, 1 + std::count(text_.begin(), end, '\n'));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void skip_blanks(bool newlines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  Result<std::string> rule_name() {
    const size_t begin = at_;
    while (is_name_char(peek())) ++at_;
    if (at_ == begin) return error("expected a rule's name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  // Returns whether the definition of a rule begins here, after a newline.
  bool at_definition() {
    const size_t begin = at_;
    while (is_name_char(peek())) ++at_;
    const bool has_name = at_ > begin;
    skip_blanks(true);
    const bool is_definition = has_name && text_.substr(at_).starts_with("::=");
    at_ = begin;
    return is_definition;
  }

  Result<Fragment> alternatives(int depth) {
    if (depth > kMaxEbnfNesting) return error("nesting that is too deep");
    std::vector<Fragment> parts;
    do {
      QUIRE_ASSIGN_OR_RETURN(const Fragment part, sequence(depth));
      parts.push_back(part);
      skip_blanks(true);
    } while (take("|"));
    return rules_.any_of(parts);
  }

  Result<Fragment> sequence(int depth) {
    std::vector<Fragment> parts;
    for (;;) {
      skip_blanks(true);
      if (at_ >= text_.size() || peek() == '|' || peek() == ')' || at_definition()) break;
      QUIRE_ASSIGN_OR_RETURN(Fragment part, item(depth));
      QUIRE_ASSIGN_OR_RETURN(part, quantified(part));
      parts.push_back(part);
    }
    return rules_.sequence(parts);
  }

  Result<Fragment> item(int depth) {
    if (take("(")) {
      QUIRE_ASSIGN_OR_RETURN(const Fragment part, alternatives(depth + 1));
      skip_blanks(true);
      if (!take(")")) return error("expected ')'");
      return part;
    }
    if (take("\"")) {
      std::string literal;
      while (!take("\"")) {
        if (at_ >= text_.size()) return error("expected '\"'");
        QUIRE_ASSIGN_OR_RETURN(const char32_t c, character());
        append_utf8(literal, c);
      }
      return rules_.terminal(store_.literal(literal));
    }
    if (take("[")) return char_class();
    if (take(".")) return rules_.terminal(encoder_.any_char());
    QUIRE_ASSIGN_OR_RETURN(const std::string name, rule_name());
    return rules_.call(named(name).id);
  }

  Result<char32_t> character() {
    if (peek() != '\\') {
      const CodePoint c = decode_utf8(text_.substr(at_));
      at_ += c.size;
      return c.value;
    }
    ++at_;
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '\'':
      case '/':
        return static_cast<char32_t>(c);
      default:
        return error("an unknown escape");
    }
  }

  Result<char32_t> hex(size_t digits) {
    uint32_t value = 0;
    const std::string_view text = text_.substr(std::min(at_, text_.size()), digits);
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    const bool is_scalar = value <= kMaxCodePoint && (value < 0xD800 || value > 0xDFFF);
    if (text.size() != digits || end != text.data() + digits || !is_scalar) {
      return error("expected the hexadecimal digits of a character");
    }
    at_ += digits;
    return static_cast<char32_t>(value);
  }

  Result<Fragment> char_class() {
    const bool is_negated = take("^");
    CharSet set;
    while (!take("]")) {
      if (at_ >= text_.size()) return error("expected ']'");
      QUIRE_ASSIGN_OR_RETURN(const char32_t lo, character());
      char32_t hi = lo;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        QUIRE_ASSIGN_OR_RETURN(hi, character());
        if (hi < lo) return error("a range out of order");
      }
      set.add({lo, hi});
    }
    return rules_.terminal(encoder_.chars(is_negated ? set.complement() : set));
  }

  Result<Fragment> quantified(Fragment part) {
    for (;;) {
      if (take("*")) {
        part = rules_.star(part);
      } else if (take("+")) {
        part = rules_.repeat(part, rules_.empty(), 1, kUnbounded);
      } else if (take("?")) {
        part = rules_.optional(part);
      } else if (take("{")) {
        QUIRE_ASSIGN_OR_RETURN(part, counted(part));
      } else {
        return part;
      }
    }
  }

  Result<Fragment> counted(Fragment part) {
    const size_t end = text_.find('}', at_);
    if (end == text_.npos) return error("expected '}'");
    const auto number = [&](uint32_t missing) -> std::optional<uint32_t> {
      skip_blanks(false);
      const size_t begin = at_;
      while (at_ < end && peek() >= '0' && peek() <= '9') ++at_;
      if (at_ == begin) return missing;
      uint32_t value = 0;
      const auto parsed = std::from_chars(text_.data() + begin, text_.data() + at_, value);
      skip_blanks(false);
      return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
    };
    const auto min = number(0);
    auto max = min;
    if (take(",")) max = number(kUnbounded);
    if (!min || !max || *max < *min || at_ != end) return error("expected {m}, {m,} or {m,n}");
    ++at_;
    return rules_.repeat(part, rules_.empty(), *min, *max);
  }

  ExprStore& store_;
  Rules& rules_;
  Encoder encoder_;
  std::string_view text_;
  size_t at_ = 0;
  std::map<std::string, Named> names_;
};

}  // namespace

Result<RuleId> ebnf_rule(ExprStore& store, Rules& rules, std::string_view text) {
  return EbnfParser(store, rules, text).parse();
}

}  // namespace quire::grammar
