// Sixteen floats in one AVX-512 register (F, BW, DQ, VL). simd_portable.h says what these names
// mean.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace quire {
namespace {

using F16 = __m512;
using U16 = __m512i;

#define QUIRE_SIMD static inline __attribute__((always_inline, unused))

constexpr int kLanes = 16;

QUIRE_SIMD __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>((1u << static_cast<uint32_t>(n)) - 1u);
}

QUIRE_SIMD F16 set1(float x) { return _mm512_set1_ps(x); }
QUIRE_SIMD F16 zero() { return _mm512_setzero_ps(); }
QUIRE_SIMD F16 load(const float* p) { return _mm512_loadu_ps(p); }
QUIRE_SIMD void store(float* p, F16 v) { _mm512_storeu_ps(p, v); }
// Stores to 64-byte aligned memory without reading it first. Other threads see it after
// fence_stores().
QUIRE_SIMD void store_past_caches(float* p, F16 v) { _mm512_stream_ps(p, v); }
QUIRE_SIMD void fence_stores() { _mm_sfence(); }
QUIRE_SIMD F16 load_n(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
QUIRE_SIMD void store_n(float* p, F16 v, int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }

QUIRE_SIMD F16 load_i32(const int32_t* p) { return _mm512_cvtepi32_ps(_mm512_loadu_si512(p)); }

QUIRE_SIMD F16 add(F16 a, F16 b) { return _mm512_add_ps(a, b); }
QUIRE_SIMD F16 sub(F16 a, F16 b) { return _mm512_sub_ps(a, b); }
QUIRE_SIMD F16 mul(F16 a, F16 b) { return _mm512_mul_ps(a, b); }
QUIRE_SIMD F16 div(F16 a, F16 b) { return _mm512_div_ps(a, b); }
QUIRE_SIMD F16 fma(F16 a, F16 b, F16 c) { return _mm512_fmadd_ps(a, b, c); }
QUIRE_SIMD void add_product(F16& sum, F16 a, F16 b) { sum = fma(a, b, sum); }
QUIRE_SIMD F16 max(F16 a, F16 b) { return _mm512_max_ps(a, b); }
QUIRE_SIMD F16 min(F16 a, F16 b) { return _mm512_min_ps(a, b); }
QUIRE_SIMD F16 select_less(F16 a, F16 b, F16 yes, F16 no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
QUIRE_SIMD F16 select_bits(uint32_t bits, F16 yes, F16 no) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>(bits), no, yes);
}
QUIRE_SIMD F16 abs(F16 a) { return _mm512_abs_ps(a); }
QUIRE_SIMD F16 copy_sign(F16 magnitude, F16 sign) {
  return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
QUIRE_SIMD F16 scale_pow2(F16 x, F16 n) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), exponent));
}
QUIRE_SIMD F16 round_to_integer(F16 x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
QUIRE_SIMD F16 scale_pow2_flushed(F16 x, F16 n) { return _mm512_scalef_ps(x, n); }
QUIRE_SIMD F16 iota(float base) {
  return _mm512_add_ps(_mm512_set1_ps(base),
                       _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

QUIRE_SIMD float reduce_add(F16 v) {
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
QUIRE_SIMD float reduce_max(F16 v) {
  const __m256 m8 = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_shuffle_ps(m2, m2, 1)));
}

QUIRE_SIMD F16 load_bf16(const uint16_t* p) {
  const __m512i wide =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
QUIRE_SIMD void load_bf16_pairs(const uint16_t* p, F16* even, F16* odd) {
  const __m512i v = _mm512_loadu_si512(p);
  *even = _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
  *odd = _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
QUIRE_SIMD F16 load_bf16_even(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
QUIRE_SIMD F16 load_bf16_odd(const uint16_t* p) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
QUIRE_SIMD U16 round_to_bf16_bits(F16 x) {
  const __m512i u = _mm512_castps_si512(x);
  const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(u, _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i bits = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
  return _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
}
QUIRE_SIMD F16 round_to_bf16(F16 x) { return _mm512_castsi512_ps(round_to_bf16_bits(x)); }
QUIRE_SIMD void store_bf16(uint16_t* p, F16 x) {
  const __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_to_bf16_bits(x), 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
}
QUIRE_SIMD F16 load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
QUIRE_SIMD void store_f16(uint16_t* p, F16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#ifdef __AVX512BF16__
// Computes acc[i] += a[2i + 1] * b[2i + 1] and then acc[i] += a[2i] * b[2i], with the same pair of
// `a` in every lane.
QUIRE_SIMD F16 dot_bf16_pairs(F16 acc, uint32_t a_pair, const uint16_t* b) {
  return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_set1_epi32(static_cast<int>(a_pair)),
                          (__m512bh)_mm512_loadu_si512(b));
}
#endif

#ifdef __AVX512BF16__
constexpr int kPairSlots = 1;
using Pairs = __m512i;
using PairX = __m512i;
QUIRE_SIMD Pairs load_pairs(const uint16_t* p) { return _mm512_loadu_si512(p); }
QUIRE_SIMD Pairs keep_pairs(Pairs b, bool even, bool odd) {
  const uint32_t mask = (even ? 0xffffu : 0u) | (odd ? 0xffff0000u : 0u);
  return _mm512_and_si512(b, _mm512_set1_epi32(static_cast<int>(mask)));
}
QUIRE_SIMD PairX broadcast_pair(const float* x) {
  int word;
  __builtin_memcpy(&word, x, sizeof word);
  return _mm512_set1_epi32(word);
}
// Adds the odd elements first and then the even ones, as the instruction defines it.
QUIRE_SIMD F16 pair_fma(F16 acc, PairX x, Pairs b) {
  return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)b);
}
QUIRE_SIMD void store_pair_slots(float* slots, int64_t index, F16 x) {
  store_bf16(reinterpret_cast<uint16_t*>(slots) + index, x);
}
// Lane i of the result has weights 2i and 2i + 1.
QUIRE_SIMD F16 store_pair_weights(float* slots, int64_t index, F16 a, F16 b) {
  const __m512bh pairs = _mm512_cvtne2ps_pbh(b, a);
  _mm512_storeu_si512(reinterpret_cast<uint16_t*>(slots) + index, (__m512i)pairs);
  return _mm512_dpbf16_ps(_mm512_setzero_ps(), pairs, (__m512bh)_mm512_set1_epi32(0x3f803f80));
}
#else
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
#endif

// This is not __m512i, because GCC 12 keeps arrays of that in memory.
using Sums16 = int32_t __attribute__((vector_size(64)));
QUIRE_SIMD Sums16 load_sums(const void* p) { return (Sums16)_mm512_loadu_si512(p); }
QUIRE_SIMD void store_sums(void* p, Sums16 sum) { _mm512_storeu_si512(p, (__m512i)sum); }
QUIRE_SIMD Sums16 zero_sums() { return Sums16{}; }
QUIRE_SIMD F16 integer_sums_to_float(Sums16 sum) { return _mm512_cvtepi32_ps((__m512i)sum); }
QUIRE_SIMD void store_i16(int16_t* p, F16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x)));
}
QUIRE_SIMD void store_i8(int8_t* p, F16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
}
#ifdef __AVX512VNNI__
// Integers of 16 bits in pairs along k, for 16 outputs.
struct IntegerPairs {
  __m512i words;
};
QUIRE_SIMD Sums16 pair_dot(Sums16 sum, __m512i x, IntegerPairs w) {
  return (Sums16)_mm512_dpwssd_epi32((__m512i)sum, w.words, x);
}
QUIRE_SIMD IntegerPairs load_integer_pairs(const void* p) { return {_mm512_loadu_si512(p)}; }
QUIRE_SIMD void store_integer_pairs(void* p, IntegerPairs b) { _mm512_storeu_si512(p, b.words); }

// One operand of the instruction is unsigned, so activations are stored plus 128, and the sums of
// the weights correct for that. Both are exact modulo 2^32.
using Quads = __m512i;
constexpr int kQuadWords = 1;
QUIRE_SIMD Quads load_quads(const uint8_t* p) { return _mm512_loadu_si512(p); }
QUIRE_SIMD Sums16 quad_dot(Sums16 sum, const uint32_t* x, Quads w) {
  return (Sums16)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(static_cast<int>(*x)), w);
}
QUIRE_SIMD void quad_words(uint32_t* words, const int8_t* codes) {
  uint32_t word;
  __builtin_memcpy(&word, codes, sizeof word);
  *words = word ^ 0x80808080u;
}
QUIRE_SIMD F16 sums_to_float(Sums16 sum, const int32_t* weight_sums) {
  const __m512i offset = _mm512_slli_epi32(_mm512_loadu_si512(weight_sums), 7);
  return _mm512_cvtepi32_ps(_mm512_sub_epi32((__m512i)sum, offset));
}
#else
// The even and the odd k of each four, widened to 16 bits, as pairs that madd multiplies and adds.
struct Quads {
  __m512i even, odd;
};
constexpr int kQuadWords = 2;
QUIRE_SIMD Quads load_quads(const uint8_t* p) {
  const __m512i v = _mm512_loadu_si512(p);
  return {_mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8), _mm512_srai_epi16(v, 8)};
}
QUIRE_SIMD Sums16 quad_dot(Sums16 sum, const uint32_t* x, const Quads& w) {
  const __m512i even = _mm512_set1_epi32(static_cast<int>(x[0]));
  const __m512i odd = _mm512_set1_epi32(static_cast<int>(x[1]));
  sum += (Sums16)_mm512_madd_epi16(w.even, even);
  return sum + (Sums16)_mm512_madd_epi16(w.odd, odd);
}
QUIRE_SIMD void quad_words(uint32_t* words, const int8_t* codes) {
  const int16_t wide[4] = {codes[0], codes[2], codes[1], codes[3]};
  __builtin_memcpy(words, wide, sizeof wide);
}
QUIRE_SIMD F16 sums_to_float(Sums16 sum, const int32_t* weight_sums) {
  (void)weight_sums;
  return _mm512_cvtepi32_ps((__m512i)sum);
}
#endif

QUIRE_SIMD void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
QUIRE_SIMD void prefetch_l2(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

}  // namespace
}  // namespace quire
