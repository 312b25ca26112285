#include "tokenizer/stages/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cctype>

#include "base/check.h"
#include "tokenizer/unicode/unicode_property.h"

namespace quire {
namespace {

constexpr uint32_t kMatchLimit = 20'000'000;
constexpr uint32_t kDepthLimit = 100'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kMaxPatternBytes = 64 * 1024;

// The characters of White_Space, because PCRE2's \s also matches U+180E.
constexpr std::string_view kSpaceItems =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// Circled and squared Latin letters, which \w matches, too.
constexpr std::string_view kLetterSymbolItems =
    R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kHexItems = "0-9a-fA-F";

// Writes ranges as items of a class. Each is written with both ends, so that a hyphen behind it is
// a literal; PCRE2 refuses surrogates as ends.
void append_ranges(std::string& out, const std::vector<CodePointRange>& ranges) {
  const auto is_surrogate = [](char32_t c) { return c >= 0xD800 && c <= 0xDFFF; };
  for (const CodePointRange& range : ranges) {
    const uint32_t first = is_surrogate(range.first) ? 0xE000 : range.first;
    const uint32_t last = is_surrogate(range.last) ? 0xD7FF : range.last;
    if (first <= last) out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", first, last);
  }
}

// Returns whether a category has only gained characters since PCRE2's tables were made. The
// category of unassigned characters has lost some, and U+1171E moved from Mn to Mc.
bool only_grew(std::string_view category) {
  return category[0] != 'C' && category[0] != 'c' && category != "Mn";
}

// Returns the items of a class with a property's characters; empty for an unknown property. PCRE2's
// own tables are older. A category that has only grown is written as PCRE2's category and the newer
// characters, which is faster than a list of all. Other categories are listed, and so are scripts,
// because PCRE2's \p{Han} means Script_Extensions.
std::string property_items(std::string_view name) {
  std::string out;
  const auto newer = newer_category_ranges(name);
  if (newer && only_grew(name)) {
    out = fmt::format("\\p{{{}}}", name);
    append_ranges(out, *newer);
  } else if (const auto ranges = property_ranges(name)) {
    append_ranges(out, *ranges);
  }
  return out;
}

// Returns what \w matches inside a class.
const std::string& class_word_items() {
  static const std::string items = property_items("L") + property_items("M") +
                                   property_items("Nd") + property_items("Nl") +
                                   property_items("Pc") + std::string(kLetterSymbolItems);
  return items;
}

// Returns what \w matches outside of classes, where Oniguruma also includes the superscripts and
// fractions of Latin-1, but not others.
const std::string& word_items() {
  static const std::string items = class_word_items() + R"(\xb2\xb3\xb9\xbc-\xbe)";
  return items;
}

// Translator reads a pattern once and rewrites what the two dialects read differently.
class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  Result<std::string> run() {
    while (pos_ < in_.size()) {
      QUIRE_RETURN_IF_ERROR(step());
    }
    return std::move(out_);
  }

 private:
  bool looking_at(std::string_view what) const { return in_.substr(pos_, what.size()) == what; }

  Status step() {
    const char c = in_[pos_];
    if (c == '\\') return escape();
    if (class_depth_ > 0) return in_class(c);
    if (c == '[') return open_class();
    if (looking_at("(?")) return group_options();
    out_ += c;
    ++pos_;
    return Status();
  }

  Status open_class() {
    ++class_depth_;
    out_ += '[';
    ++pos_;
    if (looking_at("^")) {
      out_ += '^';
      ++pos_;
    }
    // A bracket right after the opening is a literal in both dialects.
    if (looking_at("]")) {
      out_ += "\\]";
      ++pos_;
    }
    return Status();
  }

  Status in_class(char c) {
    if (c == ']') {
      --class_depth_;
      if (class_depth_ > 0) return close_inner_class();
    } else if (looking_at("[:")) {
      const size_t end = in_.find(":]", pos_);
      if (end != std::string_view::npos) {
        out_ += in_.substr(pos_, end + 2 - pos_);
        pos_ = end + 2;
        return Status();
      }
    } else if (c == '[') {
      return open_inner_class();
    } else if (looking_at("&&")) {
      return unimplemented("regex: '&&' in a class is not supported in '{}'", in_);
    }
    out_ += c;
    ++pos_;
    return Status();
  }

  // Reads the start of a class inside a class. It adds its items to the outer class, so its
  // brackets are left out. An item that would become a range across the bracket is refused, and so
  // is a complement.
  Status open_inner_class() {
    ++pos_;
    if (out_.ends_with('-') || looking_at("^") || looking_at("]")) return refuse_inner_class();
    ++class_depth_;
    return Status();
  }

  Status close_inner_class() {
    ++pos_;
    return looking_at("-") ? refuse_inner_class() : Status();
  }

  Status refuse_inner_class() const {
    return unimplemented("regex: such a class inside a class is not supported in '{}'", in_);
  }

  // Translates (?m), which means dot-all in Ruby; multi-line anchors are always on there.
  Status group_options() {
    out_ += "(?";
    pos_ += 2;
    size_t end = pos_;
    while (end < in_.size() &&
           (std::isalpha(static_cast<unsigned char>(in_[end])) || in_[end] == '-'))
      ++end;
    const bool is_options = end > pos_ && end < in_.size() && (in_[end] == ':' || in_[end] == ')');
    for (; is_options && pos_ < end; ++pos_) out_ += in_[pos_] == 'm' ? 's' : in_[pos_];
    return Status();
  }

  void class_items(std::string_view items, bool negated) {
    if (class_depth_ == 0) {
      out_ += negated ? "[^" : "[";
      out_ += items;
      out_ += ']';
    } else {
      out_ += items;
    }
  }

  Status escape() {
    if (pos_ + 1 >= in_.size()) return invalid_argument("regex: '{}' ends in a backslash", in_);
    const char c = in_[pos_ + 1];
    pos_ += 2;
    const bool in_class = class_depth_ > 0;
    switch (c) {
      case 's':
        class_items(kSpaceItems, false);
        return Status();
      case 'w':
        class_items(in_class ? class_word_items() : word_items(), false);
        return Status();
      case 'h':
        class_items(kHexItems, false);
        return Status();
      case 'S':
      case 'W':
      case 'H':
        if (!in_class) {
          class_items(c == 'S'   ? kSpaceItems
                      : c == 'W' ? std::string_view(word_items())
                                 : kHexItems,
                      true);
        } else if (c == 'H') {
          return unimplemented("regex: \\H in a class is not supported in '{}'", in_);
        } else {
          out_ += '\\';
          out_ += c;
        }
        return Status();
      case 'b':
      case 'B':
        if (in_class) {
          out_ += '\\';
          out_ += c;
        } else {
          word_boundary(c == 'b');
        }
        return Status();
      case 'd':
        class_items(property_items("Nd"), false);
        return Status();
      case 'D':
        return complement_of("Nd");
      case 'p':
      case 'P':
        return property(c == 'P');
      case 'u':
        return unicode_escape();
      default:
        out_ += '\\';
        out_ += c;
        return Status();
    }
  }

  // Translates \p{Name}, \p{^Name} or \pL, from behind the p.
  Status property(bool negated) {
    std::string_view name = in_.substr(pos_, 1);
    if (name == "{") {
      const size_t end = in_.find('}', pos_);
      if (end == in_.npos) return invalid_argument("regex: '\\p{{' has no end in '{}'", in_);
      name = in_.substr(pos_ + 1, end - pos_ - 1);
      pos_ = end;
    }
    pos_ += pos_ < in_.size() ? 1 : 0;
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (negated) return complement_of(name);
    const std::string items = property_items(name);
    if (!items.empty()) {
      class_items(items, false);
    } else {
      out_ += fmt::format("\\p{{{}}}",
                          name);  // PCRE2 accepts the name or refuses it
    }
    return Status();
  }

  Status complement_of(std::string_view name) {
    const std::string items = property_items(name);
    if (items.empty()) {
      out_ += fmt::format("\\P{{{}}}", name);
    } else if (class_depth_ == 0) {
      class_items(items, true);
    } else {
      append_ranges(out_, complement(*property_ranges(name)));
    }
    return Status();
  }

  // Writes a word boundary without \b, because PCRE2's \b uses a narrower \w.
  void word_boundary(bool wanted) {
    out_ += fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", word_items(),
                        wanted ? "!" : "=", wanted ? "=" : "!");
  }

  Status unicode_escape() {
    const std::string_view digits = in_.substr(pos_, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) {
      return invalid_argument("regex: expected four hex digits after \\u in '{}'", in_);
    }
    out_ += fmt::format("\\x{{{}}}", digits);
    pos_ += 4;
    return Status();
  }

  std::string_view in_;
  std::string out_;
  size_t pos_ = 0;
  int class_depth_ = 0;
};

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string pattern;
  ~Code() { pcre2_code_free(code); }
};

struct RegexMatcher::Workspace {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  ~Workspace() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

Result<std::string> translate_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid_argument("regex: expected at most {} bytes, got {}", kMaxPatternBytes,
                            pattern.size());
  }
  return Translator(pattern).run();
}

Result<Regex> Regex::compile(std::string_view pattern) {
  QUIRE_ASSIGN_OR_RETURN(const std::string translated, translate_regex(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->pattern = pattern;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error, &offset, nullptr);
  if (code->code == nullptr) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return invalid_argument("regex '{}': {}", pattern, reinterpret_cast<const char*>(message));
  }
  // If JIT is not available, the slower interpreter is used.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

const std::string& Regex::pattern() const { return code_->pattern; }

size_t Regex::min_match_chars() const {
  uint32_t chars = 0;
  return pcre2_pattern_info(code_->code, PCRE2_INFO_MINLENGTH, &chars) == 0 ? chars : 0;
}

RegexMatcher::RegexMatcher(const Regex& regex)
    : code_(regex.code_), workspace_(std::make_unique<Workspace>()) {
  workspace_->data = pcre2_match_data_create_from_pattern(code_->code, nullptr);
  workspace_->context = pcre2_match_context_create(nullptr);
  QUIRE_CHECK(workspace_->data != nullptr && workspace_->context != nullptr, "out of memory");
  pcre2_set_match_limit(workspace_->context, kMatchLimit);
  pcre2_set_depth_limit(workspace_->context, kDepthLimit);
  pcre2_set_heap_limit(workspace_->context, kHeapLimitKib);
}

RegexMatcher::~RegexMatcher() = default;

std::optional<RegexMatcher::Match> RegexMatcher::find(std::string_view text, size_t from) {
  const auto match = [&](uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options | PCRE2_NO_UTF_CHECK, workspace_->data, workspace_->context);
  };
  int rc = match(0);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = match(PCRE2_NO_JIT);
  if (rc < 0) return std::nullopt;
  const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(workspace_->data);
  // With \K in a look-ahead the start can be behind the end; such a match cannot be used.
  if (ovector[0] > ovector[1] || ovector[0] < from) return std::nullopt;
  return Match{ovector[0], ovector[1]};
}

}  // namespace quire
