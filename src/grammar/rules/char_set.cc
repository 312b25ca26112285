#include "grammar/rules/char_set.h"

#include <algorithm>
#include <iterator>

#include "tokenizer/unicode/unicode.h"

namespace quire::grammar {
namespace {

constexpr CharRange kSurrogates{0xD800, 0xDFFF};

// Returns the ranges sorted and merged, without surrogates.
std::vector<CharRange> normalized(std::vector<CharRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<CharRange> merged;
  for (const CharRange range : ranges) {
    if (range.lo > range.hi) continue;
    if (!merged.empty() && range.lo <= merged.back().hi + 1) {
      merged.back().hi = std::max(merged.back().hi, range.hi);
    } else {
      merged.push_back(range);
    }
  }
  std::vector<CharRange> out;
  for (const CharRange range : merged) {
    if (range.hi < kSurrogates.lo || range.lo > kSurrogates.hi) {
      out.push_back(range);
      continue;
    }
    if (range.lo < kSurrogates.lo) out.push_back({range.lo, kSurrogates.lo - 1});
    if (range.hi > kSurrogates.hi) out.push_back({kSurrogates.hi + 1, range.hi});
  }
  return out;
}

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) : ranges_(ranges), is_normal_(false) {}

CharSet CharSet::all() { return {{0, kMaxCodePoint}}; }

void CharSet::add(CharRange range) {
  ranges_.push_back(range);
  is_normal_ = false;
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  is_normal_ = false;
}

const std::vector<CharRange>& CharSet::ranges() const {
  if (!is_normal_) {
    ranges_ = normalized(std::move(ranges_));
    is_normal_ = true;
  }
  return ranges_;
}

CharSet CharSet::complement() const {
  CharSet out;
  char32_t next = 0;
  for (const CharRange range : ranges()) {
    if (range.lo > next) out.add({next, range.lo - 1});
    next = range.hi + 1;
  }
  if (next <= kMaxCodePoint) out.add({next, kMaxCodePoint});
  return out;
}

CharSet CharSet::intersect(const CharSet& other) const {
  CharSet out;
  auto a = ranges().begin();
  auto b = other.ranges().begin();
  while (a != ranges().end() && b != other.ranges().end()) {
    const CharRange both{std::max(a->lo, b->lo), std::min(a->hi, b->hi)};
    if (both.lo <= both.hi) out.add(both);
    if (a->hi < b->hi) {
      ++a;
    } else {
      ++b;
    }
  }
  return out;
}

void CharSet::add_ascii_case_variants() {
  constexpr char32_t kCaseBit = 'a' - 'A';
  const CharSet lower = intersect({{'a', 'z'}});
  const CharSet upper = intersect({{'A', 'Z'}});
  for (const CharRange range : lower.ranges()) add({range.lo - kCaseBit, range.hi - kCaseBit});
  for (const CharRange range : upper.ranges()) add({range.lo + kCaseBit, range.hi + kCaseBit});
}

CharSet ecma_class(char letter) {
  switch (letter) {
    case 'd':
      return {{'0', '9'}};
    case 'w':
      return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    default:  // 's': WhiteSpace and LineTerminator of ECMA-262
      return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
              {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
              {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  }
}

CharSet ecma_dot() { return CharSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement(); }

std::optional<CharSet> unicode_property(std::string_view name) {
  struct Property {
    std::string_view short_name, long_name;
    uint16_t bits;
  };
  constexpr Property kProperties[] = {
      {"L", "Letter", kLetter},
      {"Ll", "Lowercase_Letter", kLower},
      {"M", "Mark", kMark},
      {"N", "Number", kNumber},
      {"Nd", "Decimal_Number", kDecimal},
      {"P", "Punctuation", kPunctuation},
      {"S", "Symbol", kSymbol},
  };
  for (const Property& property : kProperties) {
    if (name != property.short_name && name != property.long_name) continue;
    const CharClasses classes;
    CharSet out;
    for (char32_t c = 0; c <= kMaxCodePoint; ++c) {
      if ((classes(c) & property.bits) == 0) continue;
      const char32_t lo = c;
      while (c < kMaxCodePoint && (classes(c + 1) & property.bits) != 0) ++c;
      out.add({lo, c});
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace quire::grammar
