// Sixteen floats in two AVX2 registers (with FMA and F16C). simd_portable.h says what these names
// mean.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace quire {
namespace {

struct F16 {
  __m256 lo, hi;
};
struct U16 {
  __m256i lo, hi;
};

#define QUIRE_SIMD static inline __attribute__((always_inline, unused))

constexpr int kLanes = 16;

QUIRE_SIMD __m256 as_float(__m256i x) { return _mm256_castsi256_ps(x); }
QUIRE_SIMD __m256i as_int(__m256 x) { return _mm256_castps_si256(x); }

QUIRE_SIMD F16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
QUIRE_SIMD F16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
QUIRE_SIMD F16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
QUIRE_SIMD void store(float* p, F16 v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
QUIRE_SIMD F16 load_n(const float* p, int64_t n) {
  float s[16] = {};
  __builtin_memcpy(s, p, static_cast<size_t>(n) * sizeof(float));
  return load(s);
}
QUIRE_SIMD void store_n(float* p, F16 v, int64_t n) {
  float s[16];
  store(s, v);
  __builtin_memcpy(p, s, static_cast<size_t>(n) * sizeof(float));
}

QUIRE_SIMD F16 load_i32(const int32_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
          _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8)))};
}

QUIRE_SIMD F16 add(F16 a, F16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
QUIRE_SIMD F16 sub(F16 a, F16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
QUIRE_SIMD F16 mul(F16 a, F16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
QUIRE_SIMD F16 div(F16 a, F16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
QUIRE_SIMD F16 fma(F16 a, F16 b, F16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// Computes sum = fma(a, b, sum) in the register of the sum. GCC 12 moves sums to the registers of
// operands, and spills one if few are left, for which the next addition waits.
QUIRE_SIMD void add_product(F16& sum, F16 a, F16 b) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum.lo) : "x"(a.lo), "x"(b.lo));
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum.hi) : "x"(a.hi), "x"(b.hi));
}
QUIRE_SIMD F16 max(F16 a, F16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
QUIRE_SIMD F16 min(F16 a, F16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
QUIRE_SIMD F16 select_less(F16 a, F16 b, F16 yes, F16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
QUIRE_SIMD __m256 select_bits_8(uint32_t bits, __m256 yes, __m256 no) {
  const __m256i lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lanes);
  return _mm256_blendv_ps(no, yes, as_float(_mm256_cmpeq_epi32(set, lanes)));
}
QUIRE_SIMD F16 select_bits(uint32_t bits, F16 yes, F16 no) {
  return {select_bits_8(bits, yes.lo, no.lo), select_bits_8(bits >> 8, yes.hi, no.hi)};
}
QUIRE_SIMD F16 abs(F16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
QUIRE_SIMD F16 copy_sign(F16 magnitude, F16 sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(magnitude.lo, _mm256_and_ps(sign.lo, bit)),
          _mm256_or_ps(magnitude.hi, _mm256_and_ps(sign.hi, bit))};
}
QUIRE_SIMD __m256 scale_pow2_8(__m256 x, __m256 n) {
  return as_float(_mm256_add_epi32(as_int(x), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}
QUIRE_SIMD F16 scale_pow2(F16 x, F16 n) {
  return {scale_pow2_8(x.lo, n.lo), scale_pow2_8(x.hi, n.hi)};
}
QUIRE_SIMD F16 round_to_integer(F16 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.lo, kNearest), _mm256_round_ps(x.hi, kNearest)};
}
QUIRE_SIMD F16 scale_pow2_flushed(F16 x, F16 n) {
  return select_less(n, set1(-126.0f), zero(), scale_pow2(x, n));
}
QUIRE_SIMD F16 iota(float base) {
  return {_mm256_add_ps(_mm256_set1_ps(base), _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7)),
          _mm256_add_ps(_mm256_set1_ps(base), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15))};
}

QUIRE_SIMD float reduce_add(F16 v) {
  const __m256 s8 = _mm256_add_ps(v.lo, v.hi);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
QUIRE_SIMD float reduce_max(F16 v) {
  const __m256 m8 = _mm256_max_ps(v.lo, v.hi);
  const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_shuffle_ps(m2, m2, 1)));
}

QUIRE_SIMD __m256 load_bf16_8(const uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return as_float(_mm256_slli_epi32(wide, 16));
}
QUIRE_SIMD F16 load_bf16(const uint16_t* p) { return {load_bf16_8(p), load_bf16_8(p + 8)}; }
QUIRE_SIMD void load_bf16_pairs(const uint16_t* p, F16* even, F16* odd) {
  const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
  const __m256i high_half = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  *even = {as_float(_mm256_slli_epi32(lo, 16)), as_float(_mm256_slli_epi32(hi, 16))};
  *odd = {as_float(_mm256_and_si256(lo, high_half)), as_float(_mm256_and_si256(hi, high_half))};
}
QUIRE_SIMD F16 load_bf16_even(const uint16_t* p) {
  const auto* from = reinterpret_cast<const __m256i*>(p);
  return {as_float(_mm256_slli_epi32(_mm256_loadu_si256(from), 16)),
          as_float(_mm256_slli_epi32(_mm256_loadu_si256(from + 1), 16))};
}
// The mask is loaded each time, so that it takes no register from the sums.
alignas(32) static const uint32_t kHighHalves[8] = {0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                    0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                    0xffff0000u, 0xffff0000u};
QUIRE_SIMD F16 load_bf16_odd(const uint16_t* p) {
  const auto* from = reinterpret_cast<const __m256i*>(p);
  const uint32_t* halves = kHighHalves;
  asm("" : "+r"(halves));
  const __m256i mask = _mm256_load_si256(reinterpret_cast<const __m256i*>(halves));
  return {as_float(_mm256_and_si256(_mm256_loadu_si256(from), mask)),
          as_float(_mm256_and_si256(_mm256_loadu_si256(from + 1), mask))};
}
QUIRE_SIMD __m256i round_to_bf16_bits_8(__m256 x) {
  const __m256i u = as_int(x);
  const __m256i lsb = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(lsb, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  const __m256i bits = as_int(_mm256_blendv_ps(as_float(rounded), as_float(quiet), nan));
  return _mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
}
QUIRE_SIMD U16 round_to_bf16_bits(F16 x) {
  return {round_to_bf16_bits_8(x.lo), round_to_bf16_bits_8(x.hi)};
}
QUIRE_SIMD F16 round_to_bf16(F16 x) {
  const U16 bits = round_to_bf16_bits(x);
  return {as_float(bits.lo), as_float(bits.hi)};
}
QUIRE_SIMD void store_bf16(uint16_t* p, F16 x) {
  const U16 bits = round_to_bf16_bits(x);
  // packus works within 128-bit halves, and the permutation restores the order of the quarters.
  const __m256i packed =
      _mm256_packus_epi32(_mm256_srli_epi32(bits.lo, 16), _mm256_srli_epi32(bits.hi, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
QUIRE_SIMD F16 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
QUIRE_SIMD void store_f16(uint16_t* p, F16 x) {
  constexpr int kRound = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.lo, kRound));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.hi, kRound));
}

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

// This is not __m256i, because GCC 12 keeps arrays of that in memory.
using Sums8 = int32_t __attribute__((vector_size(32)));
struct Sums16 {
  Sums8 lo, hi;
};
QUIRE_SIMD Sums16 load_sums(const void* p) {
  const auto* from = static_cast<const __m256i*>(p);
  return {(Sums8)_mm256_loadu_si256(from), (Sums8)_mm256_loadu_si256(from + 1)};
}
QUIRE_SIMD void store_sums(void* p, Sums16 sum) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), (__m256i)sum.lo);
  _mm256_storeu_si256(static_cast<__m256i*>(p) + 1, (__m256i)sum.hi);
}
QUIRE_SIMD F16 integer_sums_to_float(Sums16 sum) {
  return {_mm256_cvtepi32_ps((__m256i)sum.lo), _mm256_cvtepi32_ps((__m256i)sum.hi)};
}
// Integers of 16 bits in pairs along k, for 16 outputs, which madd multiplies and adds.
struct IntegerPairs {
  __m256i lo, hi;
};
QUIRE_SIMD Sums16 pair_dot(Sums16 sum, __m256i x, IntegerPairs w) {
#ifdef __AVXVNNI__
  return {(Sums8)_mm256_dpwssd_avx_epi32((__m256i)sum.lo, w.lo, x),
          (Sums8)_mm256_dpwssd_avx_epi32((__m256i)sum.hi, w.hi, x)};
#else
  return {sum.lo + (Sums8)_mm256_madd_epi16(w.lo, x), sum.hi + (Sums8)_mm256_madd_epi16(w.hi, x)};
#endif
}
QUIRE_SIMD IntegerPairs load_integer_pairs(const void* p) {
  const auto* from = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
}
QUIRE_SIMD void store_integer_pairs(void* p, IntegerPairs b) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), b.lo);
  _mm256_storeu_si256(static_cast<__m256i*>(p) + 1, b.hi);
}
QUIRE_SIMD Sums16 zero_sums() { return {Sums8{}, Sums8{}}; }
#ifdef __AVXVNNI__
// As with AVX512_VNNI (simd_avx512.h), activations are stored plus 128, and the sums of the weights
// correct for that.
struct Quads {
  __m256i lo, hi;
};
constexpr int kQuadWords = 1;
QUIRE_SIMD Quads load_quads(const uint8_t* p) {
  const auto* from = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
}
QUIRE_SIMD Sums16 quad_dot(Sums16 sum, const uint32_t* x, const Quads& w) {
  const __m256i four = _mm256_set1_epi32(static_cast<int>(*x));
  return {(Sums8)_mm256_dpbusd_avx_epi32((__m256i)sum.lo, four, w.lo),
          (Sums8)_mm256_dpbusd_avx_epi32((__m256i)sum.hi, four, w.hi)};
}
QUIRE_SIMD void quad_words(uint32_t* words, const int8_t* codes) {
  uint32_t word;
  __builtin_memcpy(&word, codes, sizeof word);
  *words = word ^ 0x80808080u;
}
// Subtracts modulo 2^32: a result that fits can be the difference of two sums that do not.
QUIRE_SIMD Sums8 less_offset(Sums8 sum, Sums8 weight_sums) {
  return (Sums8)_mm256_sub_epi32((__m256i)sum, _mm256_slli_epi32((__m256i)weight_sums, 7));
}
QUIRE_SIMD F16 sums_to_float(Sums16 sum, const int32_t* weight_sums) {
  const Sums16 offset = load_sums(weight_sums);
  return integer_sums_to_float({less_offset(sum.lo, offset.lo), less_offset(sum.hi, offset.hi)});
}
#else
// The even and the odd k of each four, widened to 16 bits, as pairs that madd multiplies and adds.
struct Quads {
  __m256i even_lo, odd_lo, even_hi, odd_hi;
};
constexpr int kQuadWords = 2;
QUIRE_SIMD Quads load_quads(const uint8_t* p) {
  const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
  return {_mm256_srai_epi16(_mm256_slli_epi16(lo, 8), 8), _mm256_srai_epi16(lo, 8),
          _mm256_srai_epi16(_mm256_slli_epi16(hi, 8), 8), _mm256_srai_epi16(hi, 8)};
}
QUIRE_SIMD Sums16 quad_dot(Sums16 sum, const uint32_t* x, const Quads& w) {
  const __m256i even = _mm256_set1_epi32(static_cast<int>(x[0]));
  const __m256i odd = _mm256_set1_epi32(static_cast<int>(x[1]));
  sum = pair_dot(sum, even, {w.even_lo, w.even_hi});
  return pair_dot(sum, odd, {w.odd_lo, w.odd_hi});
}
QUIRE_SIMD void quad_words(uint32_t* words, const int8_t* codes) {
  const int16_t wide[4] = {codes[0], codes[2], codes[1], codes[3]};
  __builtin_memcpy(words, wide, sizeof wide);
}
QUIRE_SIMD F16 sums_to_float(Sums16 sum, const int32_t* weight_sums) {
  (void)weight_sums;
  return integer_sums_to_float(sum);
}
#endif
// Rounds to 16-bit integers, ties to even.
QUIRE_SIMD __m256i i16_of(F16 x) {
  const __m256i words =
      _mm256_packs_epi32(_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi));  // 0-3 8-11 4-7 12-15
  return _mm256_permute4x64_epi64(words, 0xd8);
}
QUIRE_SIMD void store_i16(int16_t* p, F16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), i16_of(x));
}
QUIRE_SIMD void store_i8(int8_t* p, F16 x) {
  const __m256i in_order = i16_of(x);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(in_order), _mm256_extracti128_si256(in_order, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

QUIRE_SIMD void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
QUIRE_SIMD void prefetch_l2(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

}  // namespace
}  // namespace quire
