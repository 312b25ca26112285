// int8 weights whose products are of 16 bits, in pairs of k (IntegerPairs in simd_avx2.h). These
// types allow blocks of more rows than StoredInt8 has registers for, and widen the weights once for
// many blocks.
#pragma once

#include "kernels/cpu/linear/linear_int8-inl.h"
#include "kernels/cpu/linear/linear_types-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// A barrier for the compiler, which would otherwise add up the products of several steps first, and
// spill them.
template <int ROWS, int NV>
QUIRE_SIMD void keep_order(Sums16 (&acc)[ROWS][NV]) {
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) asm("" : "+x"(acc[r][v].lo), "+x"(acc[r][v].hi));
  }
}

// Adds the products of the even, or of the odd, k of a step for all rows.
template <int ROWS>
QUIRE_SIMD void add_integer_pairs(const uint32_t* x, IntegerPairs w, Sums16 (&acc)[ROWS][1]) {
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    acc[r][0] = pair_dot(acc[r][0], _mm256_set1_epi32(static_cast<int>(x[2 * r])), w);
  }
  keep_order(acc);
}

// Decoded weights are int16, [k / 4][even, odd][16][2].
template <LinearTraits Traits>
struct DecodedInt8 : StoredInt8<Traits> {
  static constexpr int64_t kOutputs = 16;
  static constexpr int64_t kStepBytes = 2 * 64;
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void step(const uint32_t* a, const uint8_t* w,
                                                         Sums16 (&acc)[ROWS][NV]) {
    static_assert(NV == 1 && DecodedInt8::kXWords == 2);
    add_integer_pairs<ROWS>(a, load_integer_pairs(w), acc);
    add_integer_pairs<ROWS>(a + 1, load_integer_pairs(w + 64), acc);
  }
};

template <LinearTraits Traits>
struct StoredInt8Pairs : StoredInt8<Traits> {
  using Decoded = DecodedInt8<Traits>;
  static inline __attribute__((always_inline)) void decode(const uint8_t* w, uint8_t* out) {
    const Quads quads = load_quads(w);
    store_integer_pairs(out, {quads.even_lo, quads.even_hi});
    store_integer_pairs(out + 64, {quads.odd_lo, quads.odd_hi});
  }
  template <int ROWS, int NV>
  static inline __attribute__((always_inline)) void step(const uint32_t* a, const uint8_t* w,
                                                         Sums16 (&acc)[ROWS][NV]) {
    if constexpr (ROWS <= 3) {
      StoredInt8<Traits>::template step<ROWS, NV>(a, w, acc);
      if (ROWS > 2) keep_order(acc);  // one or two rows fit anyway, and wait for memory
    } else {
      const Quads even = load_quads(w);
      add_integer_pairs<ROWS>(a, {even.even_lo, even.even_hi}, acc);
      asm("" : "+r"(w));  // forces a second load; the compiler would keep all four
      const Quads odd = load_quads(w);
      add_integer_pairs<ROWS>(a + 1, {odd.odd_lo, odd.odd_hi}, acc);
    }
  }
};

}  // namespace
}  // namespace quire
