// A Vocab holds the pieces of a model and their ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

// Ids may have holes. Pieces are added while loading; afterwards many threads may look them up.
// Views of pieces live as long as the vocabulary and survive its move, but add() invalidates them.
class Vocab {
 public:
  // No published vocabulary comes near this size. The bound keeps a wrong id from allocating
  // gigabytes.
  static constexpr int64_t kMaxSize = int64_t{1} << 24;

  // Returns an error if the id is out of range or already taken by another piece. If a piece is
  // added twice, find() returns its last id; piece() returns it for both ids.
  Status add(std::string_view piece, int64_t id);
  void reserve(size_t count, size_t bytes);

  std::optional<TokenId> find(std::string_view piece) const;

  bool contains(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < spans_.size() && spans_[id].size != kAbsent;
  }
  // Returns the piece, or an empty view for an id that is not in the vocabulary.
  std::string_view piece(TokenId id) const {
    if (!contains(id)) return {};
    return std::string_view(*bytes_).substr(spans_[id].begin, spans_[id].size);
  }
  // Returns the largest id + 1.
  int32_t size() const { return static_cast<int32_t>(spans_.size()); }

 private:
  static constexpr uint32_t kAbsent = ~uint32_t{0};
  struct Span {
    size_t begin = 0;
    uint32_t size = kAbsent;
  };
  size_t find_slot(std::string_view piece) const;
  void rehash(size_t capacity);

  std::unique_ptr<std::string> bytes_ = std::make_unique<std::string>();
  std::vector<Span> spans_;
  std::vector<int32_t> slots_;  // -1 if empty
  size_t num_used_ = 0;
};

}  // namespace quire
