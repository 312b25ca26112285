#include "chat/jinja/value/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace quire::jinja {
namespace {

// These are the unconditional mappings of Unicode's SpecialCasing.txt to more than one upper-case
// letter.
constexpr std::array<std::pair<char32_t, std::string_view>, 13> kSpecialUpper{{
    {0x00df, "SS"},
    {0x0149, "\xca\xbcN"},
    {0x01f0, "J\xcc\x8c"},
    {0x0587, "\xd4\xb5\xd5\x92"},
    {0x1e96, "H\xcc\xb1"},
    {0x1e97, "T\xcc\x88"},
    {0xfb00, "FF"},
    {0xfb01, "FI"},
    {0xfb02, "FL"},
    {0xfb03, "FFI"},
    {0xfb04, "FFL"},
    {0xfb05, "ST"},
    {0xfb06, "ST"},
}};

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; }

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

void append_upper(std::string& out, char32_t code) {
  const auto* it = std::find_if(kSpecialUpper.begin(), kSpecialUpper.end(),
                                [&](const auto& entry) { return entry.first == code; });
  if (it != kSpecialUpper.end()) {
    out += it->second;
  } else {
    append_code_point(out,
                      static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
  }
}

void append_title(std::string& out, char32_t code) {
  constexpr std::array<std::string_view, 7> kLigatures{"Ff", "Fi", "Fl", "Ffi", "Ffl", "St", "St"};
  if (code == 0xdf) {
    out += "Ss";
  } else if (code >= 0xfb00 && code <= 0xfb06) {
    out += kLigatures[code - 0xfb00];
  } else {
    append_code_point(out,
                      static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))));
  }
}

bool is_cased(char32_t code) { return is_upper(code) || is_lower(code) || is_title(code); }

// A sigma at the end of a word has a lower-case letter of its own.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  bool before = false;
  for (size_t i = 0; i < begin;) before = is_cased(next_code_point(text, i));
  if (!before) return false;
  if (end >= text.size()) return true;
  return !is_cased(next_code_point(text, end));
}

void append_lower(std::string& out, std::string_view text, size_t begin, size_t end,
                  char32_t code) {
  if (code == 0x3a3) {
    out += is_final_sigma(text, begin, end) ? "\xcf\x82" : "\xcf\x83";
  } else if (code == 0x130) {
    out += "i\xcc\x87";
  } else {
    append_code_point(out,
                      static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  }
}

}  // namespace

int64_t num_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); });
}

char32_t next_code_point(std::string_view text, size_t& position) {
  const auto lead = static_cast<uint8_t>(text[position++]);
  if (lead < 0xc0) return lead;
  const int more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  char32_t code = lead & (0x3fu >> more);
  for (int k = 0; k < more && position < text.size() && is_continuation(text[position]); ++k) {
    code = (code << 6) | (static_cast<uint8_t>(text[position++]) & 0x3fu);
  }
  return code;
}

void append_code_point(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

size_t byte_offset(std::string_view text, int64_t index, int64_t length) {
  if (index <= 0) return 0;
  if (index >= length) return text.size();
  if (length == static_cast<int64_t>(text.size())) return static_cast<size_t>(index);
  size_t i = 0;
  for (; i < text.size(); ++i) {
    if (!is_continuation(text[i]) && index-- == 0) break;
  }
  return i;
}

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_alpha(char32_t code) {
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
         c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t code) {
  if (is_decimal(code)) return true;
  return code == 0xb2 || code == 0xb3 || code == 0xb9 || code == 0x2070 ||
         (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089) ||
         (code >= 0x2460 && code <= 0x2468);
}

bool is_numeric(char32_t code) {
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t code) { return category(code) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LL || code == 0xaa || code == 0xba;
}
bool is_title(char32_t code) { return category(code) == UTF8PROC_CATEGORY_LT; }

bool is_printable(char32_t code) {
  if (code < 0x80) return code >= 0x20 && code < 0x7f;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) append_upper(out, next_code_point(text, i));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t code = next_code_point(text, i);
    append_lower(out, text, begin, i, code);
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  std::string out;
  size_t i = 0;
  if (!text.empty()) append_title(out, next_code_point(text, i));
  return out + to_lower(text.substr(i));
}

std::string to_title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t code = next_code_point(text, i);
    if (in_word) {
      append_lower(out, text, begin, i, code);
    } else {
      append_title(out, code);
    }
    in_word = is_cased(code);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t code = next_code_point(text, i);
    if (is_upper(code)) {
      append_lower(out, text, begin, i, code);
    } else {
      append_upper(out, code);
    }
  }
  return out;
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars) {
  std::u32string set;
  if (chars) {
    for (size_t i = 0; i < chars->size();) set += next_code_point(*chars, i);
    std::sort(set.begin(), set.end());
  }
  const auto drop = [&](char32_t code) {
    return chars ? std::binary_search(set.begin(), set.end(), code) : is_space(code);
  };
  size_t begin = 0;
  while (side != Side::kRight && begin < text.size()) {
    size_t next = begin;
    if (!drop(next_code_point(text, next))) break;
    begin = next;
  }
  size_t end = text.size();
  while (side != Side::kLeft && end > begin) {
    size_t start = end - 1;
    while (start > begin && is_continuation(text[start])) --start;
    size_t next = start;
    if (!drop(next_code_point(text, next))) break;
    end = start;
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t line = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t code = next_code_point(text, i);
    const bool is_break = (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) ||
                          code == 0x85 || code == 0x2028 || code == 0x2029;
    if (!is_break) continue;
    if (code == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(line, (keep_ends ? i : begin) - line));
    line = i;
  }
  if (line < text.size()) lines.push_back(text.substr(line));
  return lines;
}

std::string quoted(std::string_view text) {
  const bool use_double =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = use_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t code = next_code_point(text, i);
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      out += text.substr(begin, i - begin);
    } else if (code < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(code));
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(code));
    }
  }
  return out + quote;
}

}  // namespace quire::jinja
