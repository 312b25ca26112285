// Ids are strong types: a RequestId is not a BlockId, and neither is an int.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace quire {

template <typename Tag, typename Rep>
struct StrongId {
  using rep = Rep;
  Rep value{};

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

using RequestId = StrongId<struct RequestIdTag, uint64_t>;
using BlockId = StrongId<struct BlockIdTag, int32_t>;

// Token ids are plain integers, since models, tokenizers and clients compute with them.
using TokenId = int32_t;

// Block 0 stands for no block; it is never allocated, freed or counted.
inline constexpr BlockId kNullBlock{0};

// A half-open range of token positions [begin, end).
struct TokenRange {
  int32_t begin = 0;
  int32_t end = 0;
  constexpr int32_t size() const { return end - begin; }
  constexpr bool empty() const { return end <= begin; }
  friend constexpr bool operator==(TokenRange, TokenRange) = default;
};

}  // namespace quire

template <typename Tag, typename Rep>
struct std::hash<quire::StrongId<Tag, Rep>> {
  size_t operator()(quire::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};

template <typename Tag, typename Rep>
struct fmt::formatter<quire::StrongId<Tag, Rep>> : fmt::formatter<Rep> {
  template <typename Context>
  auto format(quire::StrongId<Tag, Rep> id, Context& context) const {
    return fmt::formatter<Rep>::format(id.value, context);
  }
};
