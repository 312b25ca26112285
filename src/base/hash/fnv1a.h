// FNV-1a, the hash of Fowler, Noll and Vo with 64 bits: for short texts, and nothing that must
// resist forgery.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

inline constexpr uint64_t kFnv1aBasis = 0xCBF29CE484222325u;

// Returns the hash of `bytes`, or, with the hash of other bytes as `before`, that of both together.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t before = kFnv1aBasis) {
  uint64_t hash = before;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

}  // namespace quire
