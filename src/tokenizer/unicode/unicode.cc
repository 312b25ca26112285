#include "tokenizer/unicode/unicode.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "tokenizer/unicode/unicode_data.h"

namespace quire {
namespace {

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Alphabetic symbols (general category So) that \w also covers: circled and squared Latin letters.
bool is_alphabetic_symbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

uint16_t category_bits(std::string_view category) {
  switch (category[0]) {
    case 'L':
      if (category == "Ll") return kWord | kLower;
      return category == "Lu" || category == "Lt" ? kWord | kUpper : kWord | kOtherLetter;
    case 'M':
      return kWord | kMark;
    case 'N':
      if (category == "No") return kNumber;
      return category == "Nd" ? kWord | kNumber | kDecimal : kWord | kNumber;
    case 'S':
      return kSymbol;
    default:
      if (category == "Pc") return kWord;
      return 0;
  }
}

uint16_t legacy_bits(uint32_t run) {
  using unicode_internal::LegacyClass;
  uint16_t bits = 0;
  if (unicode_internal::run_is_legacy_mark(run)) bits |= kLegacyMark;
  if (unicode_internal::run_is_opaque(run)) bits |= kOpaque;
  if (unicode_internal::run_is_numeric(run)) bits |= kNumeric;
  switch (unicode_internal::run_legacy_class(run)) {
    case LegacyClass::kNone:
      break;
    case LegacyClass::kPunctuation:
      bits |= kPunctuation;
      break;
    case LegacyClass::kNonSpacing:
      bits |= kNonSpacing;
      break;
    case LegacyClass::kControl:
      bits |= kOther;
      break;
  }
  return bits;
}

uint16_t compute_class(char32_t c, uint32_t run) {
  using namespace unicode_internal;
  constexpr char32_t kNonJoiner = 0x200C;
  constexpr char32_t kJoiner = 0x200D;
  uint16_t bits = category_bits(kCategoryNames[run_category(run)]);
  bits |= legacy_bits(run);
  if (is_white_space(c)) bits |= kSpace;
  if (is_alphabetic_symbol(c) || c == kNonJoiner || c == kJoiner) bits |= kWord;
  return bits;
}

}  // namespace

namespace unicode_internal {

const ClassTable& class_table() {
  static const ClassTable table = [] {
    ClassTable t;
    std::map<std::basic_string<uint16_t>, uint16_t> seen;
    size_t run = 0;
    for (uint32_t page = 0; page < 0x1100; ++page) {
      std::basic_string<uint16_t> classes(256, 0);
      for (uint32_t i = 0; i < 256; ++i) {
        const char32_t c = page * 256 + i;
        if (run + 1 < kCategoryRuns.size() && run_begin(kCategoryRuns[run + 1]) == c) ++run;
        classes[i] = compute_class(c, kCategoryRuns[run]);
      }
      const auto [it, is_new] = seen.emplace(classes, static_cast<uint16_t>(seen.size()));
      if (is_new) t.classes += classes;
      t.page[page] = it->second;
    }
    return t;
  }();
  return table;
}

}  // namespace unicode_internal

uint16_t char_class(char32_t c) { return CharClasses()(c); }

CodePoint decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char b0 = byte(0);
  if (b0 < 0x80) return {b0, 1};
  if (b0 < 0xC2 || b0 > 0xF4) return {kReplacementChar, 1};
  const uint32_t size = b0 < 0xE0 ? 2 : b0 < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and values past U+10FFFF.
  const unsigned char low = b0 == 0xE0 ? 0xA0 : b0 == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = b0 == 0xED ? 0x9F : b0 == 0xF4 ? 0x8F : 0xBF;
  char32_t value = b0 & (0xFFu >> (size + 1));
  for (uint32_t i = 1; i < size; ++i) {
    if (i >= text.size()) return {kReplacementChar, i};
    const unsigned char b = byte(i);
    const bool good = i == 1 ? (b >= low && b <= high) : (b & 0xC0) == 0x80;
    if (!good) return {kReplacementChar, i};
    value = (value << 6) | (b & 0x3Fu);
  }
  return {value, size};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(char32_t c) {
  std::string out;
  append_utf8(out, c);
  return out;
}

namespace {

// Bytes at the start of `text` that are ASCII, eight at a time.
size_t ascii_prefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t chunk;
    std::memcpy(&chunk, text.data() + i, 8);
    if (chunk & 0x8080808080808080u) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

// Bytes at the start of `text` that are well-formed.
size_t valid_prefix(std::string_view text) {
  size_t i = 0;
  while (true) {
    i += ascii_prefix(text.substr(i));
    if (i == text.size()) return i;
    const CodePoint c = decode_utf8(text.substr(i));
    const bool is_literal_replacement = c.size == 3 && text.compare(i, 3, "\xEF\xBF\xBD") == 0;
    if (c.value == kReplacementChar && !is_literal_replacement) return i;
    i += c.size;
  }
}

}  // namespace

bool is_valid_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t good = valid_prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    append_utf8(out, kReplacementChar);
    text.remove_prefix(decode_utf8(text).size);
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  const size_t longest = text.size() < 3 ? text.size() : 3;
  for (size_t n = 1; n <= longest; ++n) {
    const auto b = static_cast<unsigned char>(text[text.size() - n]);
    if ((b & 0xC0) == 0x80) continue;
    if (b < 0xC2 || b > 0xF4) return 0;
    const size_t size = b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
    // Incomplete only when all that is there could still become one well-formed sequence.
    return n < size && decode_utf8(text.substr(text.size() - n)).size == n ? n : 0;
  }
  return 0;
}

namespace {

char32_t simple_lowercase(char32_t c) {
  using namespace unicode_internal;
  const auto after =
      std::upper_bound(kLowercaseRanges.begin(), kLowercaseRanges.end(), c,
                       [](char32_t at, const LowercaseRange& range) { return at < range.first; });
  if (after == kLowercaseRanges.begin()) return c;
  const LowercaseRange& range = *(after - 1);
  if (c > range.last || (c - range.first) % range.stride != 0) return c;
  return static_cast<char32_t>(static_cast<int64_t>(c) + range.delta);
}

}  // namespace

void append_lowercase(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_utf8(out, simple_lowercase(c));
  }
}

}  // namespace quire
