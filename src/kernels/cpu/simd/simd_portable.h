// Sixteen floats in GCC/Clang vector extensions, which compile for any CPU, to the width of its
// baseline. simd_avx2.h and simd_avx512.h define the same names, and a kernel file includes exactly
// one of the three. Everything is in an anonymous namespace, so that the linker cannot choose a
// symbol that was compiled for a newer CPU. For the same reason these headers use no standard
// library.
//
// fma(a, b, c) is a * b + c: fused in the AVX files, two roundings here. Either way it is the same
// for every lane, so results do not depend on an element's place in a vector.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace quire {
namespace {

using F16 = float __attribute__((vector_size(64)));
using I16 = int32_t __attribute__((vector_size(64)));
using U16 = uint32_t __attribute__((vector_size(64)));

#define QUIRE_SIMD static inline __attribute__((always_inline, unused))

constexpr int kLanes = 16;

QUIRE_SIMD F16 set1(float x) { return F16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
QUIRE_SIMD F16 zero() { return set1(0.0f); }
QUIRE_SIMD F16 load(const float* p) {
  F16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
QUIRE_SIMD void store(float* p, F16 v) { __builtin_memcpy(p, &v, sizeof v); }
QUIRE_SIMD void store_past_caches(float* p, F16 v) { store(p, v); }
QUIRE_SIMD void fence_stores() {}
QUIRE_SIMD F16 load_n(const float* p, int64_t n) {
  F16 v = zero();
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(float));
  return v;
}
QUIRE_SIMD void store_n(float* p, F16 v, int64_t n) {
  __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(float));
}

// Returns 16 integers as the nearest floats.
QUIRE_SIMD F16 load_i32(const int32_t* p) {
  I16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, F16);
}

QUIRE_SIMD F16 add(F16 a, F16 b) { return a + b; }
QUIRE_SIMD F16 sub(F16 a, F16 b) { return a - b; }
QUIRE_SIMD F16 mul(F16 a, F16 b) { return a * b; }
QUIRE_SIMD F16 div(F16 a, F16 b) { return a / b; }
QUIRE_SIMD F16 fma(F16 a, F16 b, F16 c) { return a * b + c; }
// Computes sum = fma(a, b, sum).
QUIRE_SIMD void add_product(F16& sum, F16 a, F16 b) { sum = fma(a, b, sum); }

QUIRE_SIMD F16 select(I16 mask, F16 yes, F16 no) {
  return (F16)(((I16)yes & mask) | ((I16)no & ~mask));
}
QUIRE_SIMD F16 max(F16 a, F16 b) { return select(a > b, a, b); }  // b when either is NaN
QUIRE_SIMD F16 min(F16 a, F16 b) { return select(a < b, a, b); }
QUIRE_SIMD F16 select_less(F16 a, F16 b, F16 yes, F16 no) { return select(a < b, yes, no); }
// Returns in lane i `yes` if bit i of `bits` is set, otherwise `no`.
QUIRE_SIMD F16 select_bits(uint32_t bits, F16 yes, F16 no) {
  const U16 lanes = {1u << 0, 1u << 1, 1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
                     1u << 8, 1u << 9, 1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15};
  return select((lanes & bits) != 0, yes, no);
}
QUIRE_SIMD F16 abs(F16 a) { return (F16)((U16)a & 0x7fffffffu); }
// Returns `magnitude`, which must not be negative, with the sign of `sign`.
QUIRE_SIMD F16 copy_sign(F16 magnitude, F16 sign) {
  return (F16)((U16)magnitude | ((U16)sign & 0x80000000u));
}
// Returns x * 2^n for integers n in [-126, 127], given as floats. The result must be a normal
// number.
QUIRE_SIMD F16 scale_pow2(F16 x, F16 n) {
  const I16 bits = __builtin_convertvector(n, I16);
  return (F16)((I16)x + (bits << 23));
}
// Rounds |x| < 2^22 to the nearest integer, ties to even.
QUIRE_SIMD F16 round_to_integer(F16 x) {
  const F16 magic = set1(12582912.0f);
  return (x + magic) - magic;
}
// Returns x * 2^n for integers n <= 127 and x in [1/2, 2]. It is 0 if the result is far below the
// normal numbers (n < -150). For n from -150 to -127 it is 0 or the rounded result, as the
// instruction set has it.
QUIRE_SIMD F16 scale_pow2_flushed(F16 x, F16 n) {
  return select_less(n, set1(-126.0f), zero(), scale_pow2(x, n));
}
// Returns base + i in lane i.
QUIRE_SIMD F16 iota(float base) {
  const F16 steps = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return set1(base) + steps;
}

// Sums the lanes as the tree that all instruction sets use: i and i + 8, then i + 4, i + 2, i + 1.
QUIRE_SIMD float reduce_add(F16 v) {
  float s[16];
  store(s, v);
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) s[i] += s[i + half];
  }
  return s[0];
}
QUIRE_SIMD float reduce_max(F16 v) {
  float s[16];
  store(s, v);
  float best = s[0];
  for (int i = 1; i < 16; ++i) best = s[i] > best ? s[i] : best;
  return best;
}

QUIRE_SIMD U16 widen_u16(const uint16_t* p) {
  uint16_t h[16];
  __builtin_memcpy(h, p, sizeof h);
  U16 v;
  for (int i = 0; i < 16; ++i) v[i] = h[i];
  return v;
}
QUIRE_SIMD F16 load_bf16(const uint16_t* p) { return (F16)(widen_u16(p) << 16); }
// Loads 32 bf16 as pairs: even[i] = p[2i], odd[i] = p[2i + 1].
QUIRE_SIMD void load_bf16_pairs(const uint16_t* p, F16* even, F16* odd) {
  U16 v;
  __builtin_memcpy(&v, p, sizeof v);
  *even = (F16)(v << 16);
  *odd = (F16)(v & 0xffff0000u);
}
// These load the even, or the odd, ones alone.
QUIRE_SIMD F16 load_bf16_even(const uint16_t* p) {
  F16 even, odd;
  load_bf16_pairs(p, &even, &odd);
  return even;
}
QUIRE_SIMD F16 load_bf16_odd(const uint16_t* p) {
  F16 even, odd;
  load_bf16_pairs(p, &even, &odd);
  return odd;
}
// Rounds to nearest even; NaN stays a quiet NaN. The result is in the high half of each lane.
QUIRE_SIMD U16 round_to_bf16_bits(F16 x) {
  const U16 u = (U16)x;
  const U16 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
  const U16 quiet = (u | 0x400000u) & 0xffff0000u;
  const U16 nan = (U16)((u & 0x7fffffffu) > 0x7f800000u);
  return (quiet & nan) | (rounded & ~nan);
}
QUIRE_SIMD F16 round_to_bf16(F16 x) { return (F16)round_to_bf16_bits(x); }
QUIRE_SIMD void store_bf16(uint16_t* p, F16 x) {
  const U16 bits = round_to_bf16_bits(x) >> 16;
  for (int i = 0; i < 16; ++i) p[i] = static_cast<uint16_t>(bits[i]);
}

QUIRE_SIMD F16 load_f16(const uint16_t* p) {
  const U16 h = widen_u16(p);
  const U16 sign = (h & 0x8000u) << 16;
  const U16 magnitude = h & 0x7fffu;
  // Normal numbers and, with the exponent pushed to the top, infinities and NaNs.
  const U16 normal = (magnitude << 13) + (112u << 23);
  const U16 special = normal + (112u << 23);
  // Subnormals: the mantissa is put below 2^-14 with an implicit bit, which is then subtracted.
  const U16 magic = {113u << 23, 113u << 23, 113u << 23, 113u << 23, 113u << 23, 113u << 23,
                     113u << 23, 113u << 23, 113u << 23, 113u << 23, 113u << 23, 113u << 23,
                     113u << 23, 113u << 23, 113u << 23, 113u << 23};
  const U16 subnormal = (U16)((F16)((magnitude << 13) + magic) - (F16)magic);
  const U16 is_subnormal = (U16)(magnitude < 0x400u);
  const U16 is_special = (U16)(magnitude >= 0x7c00u);
  const U16 finite = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  const U16 bits = (special & is_special) | (finite & ~is_special);
  return (F16)(bits | sign);
}
QUIRE_SIMD uint16_t to_f16_bits(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal: the adder rounds to nearest even
    float m;
    __builtin_memcpy(&m, &magnitude, sizeof m);
    m += 0.5f;
    uint32_t r;
    __builtin_memcpy(&r, &m, sizeof r);
    return static_cast<uint16_t>(sign | (r - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}
QUIRE_SIMD void store_f16(uint16_t* p, F16 x) {
  for (int i = 0; i < 16; ++i) p[i] = to_f16_bits(x[i]);
}

// The operands of pair_fma, acc[i] += x . b[i]: 16 pairs of bf16, and one pair that is the same in
// every lane. In memory the latter takes kPairSlots floats: two that are already rounded to bf16,
// or one word of bf16 bits if the CPU has a dot product.
constexpr int kPairSlots = 2;
struct Pairs {
  F16 even, odd;
};
struct PairX {
  F16 even, odd;
};
QUIRE_SIMD Pairs load_pairs(const uint16_t* p) {
  Pairs b;
  load_bf16_pairs(p, &b.even, &b.odd);
  return b;
}
QUIRE_SIMD Pairs keep_pairs(Pairs b, bool even, bool odd) {
  return {even ? b.even : zero(), odd ? b.odd : zero()};
}
QUIRE_SIMD PairX broadcast_pair(const float* x) { return {set1(x[0]), set1(x[1])}; }
QUIRE_SIMD F16 pair_fma(F16 acc, PairX x, Pairs b) {
  return fma(x.odd, b.odd, fma(x.even, b.even, acc));
}
// Rounds 16 floats to bf16, in the form that broadcast_pair reads.
QUIRE_SIMD void store_pair_slots(float* slots, int64_t index, F16 x) {
  store(slots + index, round_to_bf16(x));
}
// Rounds 32 weights to bf16 and stores them from `index` on as broadcast_pair reads them. Returns
// what they add to the sums by lane.
QUIRE_SIMD F16 store_pair_weights(float* slots, int64_t index, F16 a, F16 b) {
  const F16 x = round_to_bf16(a);
  const F16 y = round_to_bf16(b);
  store(slots + index, x);
  store(slots + index + 16, y);
  return add(x, y);
}

// Exact sums of int8 products. Quads hold the weights of 16 outputs for four k, from 64 bytes
// [16][4]. The four activations of a row take kQuadWords words, the same for all outputs. |sum|
// stays below 2^31 for k <= kMaxInt8K.
using Sums16 = I16;
struct Quads {
  I16 k[4];
};
constexpr int kQuadWords = 4;
QUIRE_SIMD Sums16 zero_sums() { return I16{}; }
QUIRE_SIMD Sums16 load_sums(const void* p) {
  Sums16 sum;
  __builtin_memcpy(&sum, p, sizeof sum);
  return sum;
}
QUIRE_SIMD void store_sums(void* p, Sums16 sum) { __builtin_memcpy(p, &sum, sizeof sum); }
QUIRE_SIMD Quads load_quads(const uint8_t* p) {
  I16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return {
      {(I16)((U16)v << 24) >> 24, (I16)((U16)v << 16) >> 24, (I16)((U16)v << 8) >> 24, v >> 24}};
}
QUIRE_SIMD Sums16 quad_dot(Sums16 sum, const uint32_t* x, const Quads& w) {
  for (int j = 0; j < 4; ++j) sum += w.k[j] * static_cast<int32_t>(x[j]);
  return sum;
}
// Converts codes to the words that quad_dot takes.
QUIRE_SIMD void quad_words(uint32_t* words, const int8_t* codes) {
  for (int j = 0; j < 4; ++j) words[j] = static_cast<uint32_t>(static_cast<int32_t>(codes[j]));
}
// Returns sums as the nearest floats. `weight_sums` are the sums of each output's weights over all
// k.
QUIRE_SIMD F16 sums_to_float(Sums16 sum, const int32_t* weight_sums) {
  (void)weight_sums;
  return __builtin_convertvector(sum, F16);
}
// Stores 16 floats of |x| < 128 as the nearest integers, ties to even.
QUIRE_SIMD void store_i8(int8_t* p, F16 x) {
  const U16 bits = (U16)(x + set1(12582912.0f));
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(bits[i] & 0xffu);
}

// prefetch() fetches to the first-level cache, prefetch_l2() to the second. The first level takes
// few misses at a time (24 on Zen 4). They are enough if a hardware prefetcher follows the same
// long stream, and too few for the short runs of a paged cache.
QUIRE_SIMD void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
QUIRE_SIMD void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace
}  // namespace quire
