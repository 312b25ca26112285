// SentencePiece's "precompiled charsmap": a double-array trie from byte strings to their normal
// forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// Every index is checked: the trie comes from a file. Immutable, thread-safe.
class Charsmap {
 public:
  // `blob`: trie size in bytes (uint32, little-endian), the trie's 32-bit units, then
  // zero-terminated strings.
  static Result<Charsmap> parse(std::string_view blob);

  struct Match {
    size_t length = 0;
    std::string_view replacement;  // lives as long as the map
  };
  // The longest or the shortest key that `text` starts with.
  std::optional<Match> longest_prefix(std::string_view text) const { return prefix(text, false); }
  std::optional<Match> shortest_prefix(std::string_view text) const { return prefix(text, true); }

 private:
  std::optional<Match> prefix(std::string_view text, bool stop_at_first) const;
  std::string_view replacement_at(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string strings_;
};

}  // namespace quire
