// A fast checksum for files that this program wrote itself: it finds damage, but not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

// Mixes one number into a hash of numbers.
constexpr uint64_t mix64(uint64_t a, uint64_t b) {
  a = (a ^ b) * 0x9e3779b97f4a7c15ull;
  return a ^ (a >> 29);
}

// Returns a checksum of all bytes and their number. It has eight independent lanes, so that it is
// as fast as memory.
uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed = 7);

}  // namespace quire
