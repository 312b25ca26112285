// A ByteTrie finds all stored keys that start at a place in a text, shortest first.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tokenizer/model/flat_map.h"

namespace quire {

// Keys are inserted while loading; afterwards many threads may look them up.
class ByteTrie {
 public:
  // Keys must not be empty. A later value for the same key replaces the earlier one.
  void insert(std::string_view key, uint32_t value);

  bool empty() const { return num_nodes_ == 1; }
  bool can_start(char first) const { return root_[static_cast<unsigned char>(first)] != 0; }

  // Calls visit(length, value) for every key that is a prefix of `text`, shortest first.
  template <typename Visit>
  void visit_prefixes(std::string_view text, Visit&& visit) const {
    uint64_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const uint64_t edge = i == 0 ? root_[byte] : edges_.find(node << 8 | byte);
      if (edge == FlatMap64::kNone || edge == 0) return;
      node = edge >> 32;
      const auto value = static_cast<uint32_t>(edge);
      if (value != kNoValue) visit(i + 1, value);
    }
  }

  struct Match {
    size_t length = 0;  // 0 if nothing matches
    uint32_t value = 0;
  };
  Match longest_prefix(std::string_view text) const {
    Match match;
    visit_prefixes(text, [&](size_t length, uint32_t value) { match = {length, value}; });
    return match;
  }

 private:
  static constexpr uint32_t kNoValue = ~uint32_t{0};

  // An edge's value packs the child node (high half) and the value of the key that ends there (low
  // half).
  FlatMap64 edges_;
  std::array<uint64_t, 256> root_{};
  uint64_t num_nodes_ = 1;
};

}  // namespace quire
