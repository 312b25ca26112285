// A Charsmap is SentencePiece's "precompiled charsmap": a double-array trie from byte strings to
// their normal forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// Every index is checked, because the trie comes from a file. A map is immutable and thread-safe.
class Charsmap {
 public:
  // Parses a map: the trie's size in bytes (uint32, little-endian), its 32-bit units, then
  // zero-terminated strings. A string of more than 1024 bytes is refused, because every byte of a
  // text could be replaced by it.
  static Result<Charsmap> parse(std::string_view blob);

  struct Match {
    size_t length = 0;
    std::string_view replacement;  // lives as long as the map
  };
  // Returns the longest or the shortest key that `text` starts with.
  std::optional<Match> longest_prefix(std::string_view text) const { return prefix(text, false); }
  std::optional<Match> shortest_prefix(std::string_view text) const { return prefix(text, true); }

  // Returns the length of the longest replacement.
  size_t max_replacement_bytes() const { return max_replacement_bytes_; }

 private:
  std::optional<Match> prefix(std::string_view text, bool stop_at_first) const;
  std::string_view replacement_at(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string strings_;
  size_t max_replacement_bytes_ = 0;
};

}  // namespace quire
