// BlockCounts are numbers of blocks, one for each pool.
#pragma once

#include <array>
#include <cstdint>

#include "core/kv_spec.h"

namespace quire {

struct BlockCounts {
  std::array<int64_t, kNumKvPools> counts{};

  // Returns the same number of blocks for every pool.
  static constexpr BlockCounts all(int64_t count) {
    BlockCounts result;
    result.counts.fill(count);
    return result;
  }
  static constexpr BlockCounts of(KvPool pool, int64_t count) {
    BlockCounts result;
    result[pool] = count;
    return result;
  }

  constexpr int64_t& operator[](KvPool pool) { return counts[static_cast<size_t>(pool)]; }
  constexpr int64_t operator[](KvPool pool) const { return counts[static_cast<size_t>(pool)]; }
  constexpr BlockCounts& operator+=(const BlockCounts& other) {
    for (size_t i = 0; i < kNumKvPools; ++i) counts[i] += other.counts[i];
    return *this;
  }
  constexpr BlockCounts& operator-=(const BlockCounts& other) {
    for (size_t i = 0; i < kNumKvPools; ++i) counts[i] -= other.counts[i];
    return *this;
  }
  friend constexpr BlockCounts operator+(BlockCounts a, const BlockCounts& b) { return a += b; }
  friend constexpr BlockCounts operator-(BlockCounts a, const BlockCounts& b) { return a -= b; }
  friend constexpr BlockCounts operator*(BlockCounts a, int64_t factor) {
    for (int64_t& count : a.counts) count *= factor;
    return a;
  }
  friend bool operator==(const BlockCounts&, const BlockCounts&) = default;

  // Whether each count is at most that of `other`.
  constexpr bool fits_in(const BlockCounts& other) const {
    for (size_t i = 0; i < kNumKvPools; ++i) {
      if (counts[i] > other.counts[i]) return false;
    }
    return true;
  }
  constexpr int64_t total() const {
    int64_t sum = 0;
    for (const int64_t count : counts) sum += count;
    return sum;
  }
};

}  // namespace quire
