// These types say how each type of cache is multiplied. A product takes kWidth elements along the
// summed index at once (dims of a score, positions of a value). An operand of as many that is
// broadcast takes kSlots floats of scratch. Weights are stored as operands
// (attention_softmax-inl.h). attention_codes-inl.h has the quantized caches.
#pragma once

#include "kernels/cpu/attention/attention_softmax-inl.h"
#include "kernels/cpu/element/math-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

struct CacheF32 {
  using Element = float;
  using Copied = CacheF32;  // type of a tile's copy in scratch
  using X = F16;
  static constexpr int kWidth = 1;
  static constexpr int kSlots = 1;
  QUIRE_SIMD F16 load16(const float* p) { return load(p); }
  QUIRE_SIMD F16 broadcast(const float* x) { return set1(*x); }
  QUIRE_SIMD F16 step(F16 acc, F16 x, F16 b) { return fma(x, b, acc); }
  QUIRE_SIMD void store_operand(float* slots, int64_t index, F16 x) { store(slots + index, x); }
  using WeightSlot = float;
  QUIRE_SIMD F16 weight(F16 x) { return exp2_flushed(x); }
  QUIRE_SIMD F16 store_weights(float* slots, int64_t index, F16 a, F16 b) {
    store(slots + index, a);
    store(slots + index + 16, b);
    return add(a, b);
  }
};
struct CacheF16 : CacheF32 {
  using Element = uint16_t;
  QUIRE_SIMD F16 load16(const uint16_t* p) { return load_f16(p); }
};
struct CacheBf16 {
  using Element = uint16_t;
  using Copied = CacheBf16;
  using X = PairX;
  static constexpr int kWidth = 2;
  static constexpr int kSlots = kPairSlots;
  QUIRE_SIMD Pairs load16(const uint16_t* p) { return load_pairs(p); }
  QUIRE_SIMD PairX broadcast(const float* x) { return broadcast_pair(x); }
  QUIRE_SIMD F16 step(F16 acc, PairX x, Pairs b) { return pair_fma(acc, x, b); }
  QUIRE_SIMD void store_operand(float* slots, int64_t index, F16 x) {
    store_pair_slots(slots, index, x);
  }
  using WeightSlot = float;
  QUIRE_SIMD F16 weight(F16 x) { return exp2_weight(x); }
  QUIRE_SIMD F16 store_weights(float* slots, int64_t index, F16 a, F16 b) {
    return store_pair_weights(slots, index, a, b);
  }
};

// Loads N vectors from N places, two at a time if the codes of the cache are decoded in twos
// (decode_two).
template <class Cache, int N, class Vector>
QUIRE_SIMD void load_vectors(const typename Cache::Element* const (&from)[N], Vector (&to)[N]) {
#ifdef __AVX512VBMI__
  if constexpr (sizeof(typename Cache::Element) == 1 && N % 2 == 0) {
#pragma GCC unroll 2
    for (int i = 0; i < N; i += 2) Cache::decode_two(from[i], from[i + 1], &to[i], &to[i + 1]);
    return;
  }
#endif
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) to[i] = Cache::load16(from[i]);
}

// If one position of a pair is outside the tile's range, its value is replaced by 0: it can hold
// anything, and NaN times a weight of 0 is NaN.
QUIRE_SIMD F16 keep_in_pair(F16 value, bool, bool) { return value; }
QUIRE_SIMD Pairs keep_in_pair(Pairs values, bool even, bool odd) {
  return keep_pairs(values, even, odd);
}

}  // namespace
}  // namespace quire
