// A CharSet is a set of Unicode scalar values (no surrogates) as sorted, disjoint, closed ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quire::grammar {

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

struct CharRange {
  char32_t lo = 0;
  char32_t hi = 0;  // inclusive
  friend auto operator<=>(const CharRange&, const CharRange&) = default;
};

class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  static CharSet all();

  void add(CharRange range);
  void add(const CharSet& other);
  CharSet complement() const;
  CharSet intersect(const CharSet& other) const;
  // Adds the other case of every ASCII letter in the set.
  void add_ascii_case_variants();

  bool empty() const { return ranges().empty(); }
  // Returns ranges that are sorted, disjoint and not adjacent.
  const std::vector<CharRange>& ranges() const;

 private:
  mutable std::vector<CharRange> ranges_;
  mutable bool is_normal_ = true;
};

// Returns the class that ECMA-262 writes \d, \w or \s, by its letter 'd', 'w' or 's'. ecma_dot()
// returns what `.` matches.
CharSet ecma_class(char letter);
CharSet ecma_dot();
// Returns the set \p{NAME} for the general categories that the tokenizer's tables have exactly: L,
// Ll, M, N, Nd, P, S and their long names. Returns nullopt for others.
std::optional<CharSet> unicode_property(std::string_view name);

}  // namespace quire::grammar
