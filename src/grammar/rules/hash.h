// Hash128 is a structural hash of 128 bits: equal structures have equal hashes in every grammar of
// a process, so that masks can be shared. Accidental collisions are so improbable that they are
// ignored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hash/splitmix64.h"

namespace quire::grammar {

struct Hash128 {
  uint64_t lo = 0x9E3779B97F4A7C15;
  uint64_t hi = 0xD1B54A32D192ED03;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;

  Hash128& mix(uint64_t word) {
    lo = splitmix64_finalizer(lo ^ word) + 0x2545F4914F6CDD1D;
    hi = splitmix64_finalizer(hi + word * 0x9FB21C651E98DF25) ^ (lo >> 7);
    return *this;
  }
  Hash128& mix(const Hash128& other) { return mix(other.lo).mix(other.hi); }
};

struct Hash128Hasher {
  size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.lo); }
};

}  // namespace quire::grammar
