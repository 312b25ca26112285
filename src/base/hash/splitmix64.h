// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators"). It maps numbers
// to numbers that look random, each to another one.
#pragma once

#include <cstdint>

namespace quire {

// Returns the generator's last step alone, which maps 0 to 0.
constexpr uint64_t splitmix64_finalizer(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Returns the first number of the generator whose state is x.
constexpr uint64_t splitmix64(uint64_t x) { return splitmix64_finalizer(x + 0x9E3779B97F4A7C15u); }

}  // namespace quire
