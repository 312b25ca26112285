#include "tokenizer/unicode/unicode.h"

#include <algorithm>
#include <map>

#include "tokenizer/unicode/unicode_data.h"

namespace quire {
namespace {

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Returns whether \w matches a symbol (general category So): circled and squared Latin letters.
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
