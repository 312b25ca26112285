#include "grammar/rules/encoding.h"

#include <fmt/format.h>

#include <array>

#include "tokenizer/unicode/unicode.h"

namespace quire::grammar {
namespace {

struct ShortEscape {
  char32_t c;
  char letter;
};
constexpr ShortEscape kShortEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'\b', 'b'},
                                         {'\f', 'f'}, {'\n', 'n'},  {'\r', 'r'}, {'\t', 't'}};

CharSet raw_in_json() { return CharSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).complement(); }

}  // namespace

// A Digit is one symbol of a fixed-length code (a UTF-8 byte or a hexadecimal digit): its bounds in
// a range of sequences, and all values that it can have.
struct Encoder::Digit {
  uint32_t lo, hi, min, max;
  bool is_hex = false;
};

ExprId Encoder::digit(const Digit& digit, uint32_t lo, uint32_t hi) {
  if (!digit.is_hex) {
    return store_.byte_range(static_cast<uint8_t>(lo), static_cast<uint8_t>(hi));
  }
  ByteSet set;
  for (uint32_t value = lo; value <= hi; ++value) {
    set.set("0123456789abcdef"[value]);
    set.set("0123456789ABCDEF"[value]);
  }
  return store_.bytes(set);
}

// Returns all sequences between the digits' lo and the digits' hi in lexicographic order.
ExprId Encoder::sequence_range(std::span<const Digit> digits) {
  const size_t count = digits.size();
  if (count == 1) return digit(digits[0], digits[0].lo, digits[0].hi);
  const auto tail = [&](bool from_min, bool to_max) {
    std::vector<Digit> rest(digits.begin() + 1, digits.end());
    for (Digit& digit : rest) {
      if (from_min) digit.lo = digit.min;
      if (to_max) digit.hi = digit.max;
    }
    return sequence_range(rest);
  };
  uint32_t lo = digits[0].lo, hi = digits[0].hi;
  if (lo == hi) return store_.concat(digit(digits[0], lo, lo), tail(false, false));
  bool lo_is_min = true, hi_is_max = true;
  for (size_t i = 1; i < count; ++i) {
    lo_is_min &= digits[i].lo == digits[i].min;
    hi_is_max &= digits[i].hi == digits[i].max;
  }
  std::vector<ExprId> parts;
  if (!lo_is_min) {
    parts.push_back(store_.concat(digit(digits[0], lo, lo), tail(false, true)));
    ++lo;
  }
  if (!hi_is_max) {
    parts.push_back(store_.concat(digit(digits[0], hi, hi), tail(true, false)));
    --hi;
  }
  if (lo <= hi) parts.push_back(store_.concat(digit(digits[0], lo, hi), tail(true, true)));
  return store_.any_of(std::move(parts));
}

ExprId Encoder::utf8(const CharSet& set) {
  constexpr CharRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kMaxCodePoint}};
  std::vector<ExprId> parts;
  for (const CharRange length : kLengths) {
    const CharSet same_length = set.intersect({length});
    for (const CharRange range : same_length.ranges()) {
      const std::string lo = to_utf8(range.lo), hi = to_utf8(range.hi);
      std::array<Digit, 4> digits{};
      for (size_t i = 0; i < lo.size(); ++i) {
        digits[i] = {static_cast<uint8_t>(lo[i]), static_cast<uint8_t>(hi[i]), 0x80, 0xBF};
      }
      parts.push_back(sequence_range(std::span(digits).first(lo.size())));
    }
  }
  return store_.any_of(std::move(parts));
}

ExprId Encoder::unicode_escapes(const CharSet& set) {
  const auto hex = [](uint32_t lo, uint32_t hi, Digit* out) {
    for (int i = 0; i < 4; ++i) {
      const int shift = 12 - 4 * i;
      out[i] = {(lo >> shift) & 15, (hi >> shift) & 15, 0, 15, true};
    }
  };
  std::vector<ExprId> parts;
  const CharSet basic = set.intersect({{0, 0x1F}, {0x7F, 0xFFFF}});
  for (const CharRange range : basic.ranges()) {
    std::array<Digit, 4> digits{};
    hex(range.lo, range.hi, digits.data());
    parts.push_back(sequence_range(digits));
  }
  const CharSet supplementary = set.intersect({{0x10000, kMaxCodePoint}});
  const auto surrogates = [&](uint32_t high_lo, uint32_t high_hi, uint32_t low_lo,
                              uint32_t low_hi) {
    std::array<Digit, 4> high{}, low{};
    hex(high_lo, high_hi, high.data());
    hex(low_lo, low_hi, low.data());
    const ExprId pair[] = {sequence_range(high), store_.literal("\\u"), sequence_range(low)};
    parts.push_back(store_.concat(pair));
  };
  for (const CharRange range : supplementary.ranges()) {
    const uint32_t lo = range.lo - 0x10000, hi = range.hi - 0x10000;
    uint32_t high_lo = 0xD800 + (lo >> 10), high_hi = 0xD800 + (hi >> 10);
    const uint32_t low_lo = 0xDC00 + (lo & 0x3FF), low_hi = 0xDC00 + (hi & 0x3FF);
    if (high_lo == high_hi) {
      surrogates(high_lo, high_hi, low_lo, low_hi);
      continue;
    }
    if (low_lo != 0xDC00) surrogates(high_lo, high_lo, low_lo, 0xDFFF), ++high_lo;
    if (low_hi != 0xDFFF) surrogates(high_hi, high_hi, 0xDC00, low_hi), --high_hi;
    if (high_lo <= high_hi) surrogates(high_lo, high_hi, 0xDC00, 0xDFFF);
  }
  return store_.concat(store_.byte('u'), store_.any_of(std::move(parts)));
}

ExprId Encoder::escapes(const CharSet& set) {
  ByteSet letters;
  for (const ShortEscape& escape : kShortEscapes) {
    if (!set.intersect({{escape.c, escape.c}}).empty()) letters.set(escape.letter);
  }
  return store_.concat(store_.byte('\\'),
                       store_.any_of({store_.bytes(letters), unicode_escapes(set)}));
}

ExprId Encoder::chars(const CharSet& set) {
  const auto [it, is_new] = known_.try_emplace(set.ranges(), ExprStore::kNone);
  if (is_new) {
    it->second = form_ == TextForm::kPlain
                     ? utf8(set)
                     : store_.any_of({utf8(set.intersect(raw_in_json())), escapes(set)});
  }
  return it->second;
}

ExprId Encoder::text(std::string_view text) {
  if (form_ == TextForm::kPlain) return store_.literal(text);
  std::vector<ExprId> parts;
  while (!text.empty()) {
    const CodePoint c = decode_utf8(text);
    text.remove_prefix(c.size);
    parts.push_back(chars({{c.value, c.value}}));
  }
  return store_.concat(parts);
}

std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto* escape = std::begin(kShortEscapes);
    while (escape != std::end(kShortEscapes) && escape->c != static_cast<uint8_t>(c)) ++escape;
    if (escape != std::end(kShortEscapes) && c != '/') {
      out += '\\';
      out += escape->letter;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<uint8_t>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace quire::grammar
