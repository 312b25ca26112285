// Decodes the codes of quantized caches in registers: 16 pairs of fp8 or int8 codes to the pairs of
// bf16 that they stand for, exactly (NaN stays NaN). It also stores such pairs to memory. There is
// one section per instruction set. A set with bf16 dot products but without byte permutations has
// none, because decoding needs the permutations.
#pragma once

#include "kernels/cpu/attention/attention_cache-inl.h"
#include "kernels/cpu/simd/simd-inl.h"

#if defined(__AVX512VBMI__) || !defined(__AVX512BF16__)

namespace quire {
namespace {

#ifdef __AVX512VBMI__

// By code without its sign bit: the high and low byte of the bf16 that the code stands for.
struct alignas(64) CodeTable {
  uint8_t low[128];
  uint8_t high[128];
};

// Returns the bits of integer * 2^exponent, for an integer below 256.
static constexpr uint16_t bf16_of(int integer, int exponent) {
  if (integer == 0) return 0;
  int top = 0;
  while (integer >> (top + 1) != 0) ++top;
  const int mantissa = (integer << (7 - top)) & 0x7f;
  return static_cast<uint16_t>((127 + exponent + top) << 7 | mantissa);
}

// Returns the table of a float type with this mantissa and bias. Code `infinity` is infinity, and
// codes from `nan` on are NaN.
static constexpr CodeTable float_table(int mantissa_bits, int bias, int infinity, int nan) {
  CodeTable table{};
  for (int code = 0; code < 128; ++code) {
    const int exponent = code >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    const int integer = exponent == 0 ? mantissa : mantissa | 1 << mantissa_bits;
    uint16_t bits = bf16_of(integer, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
    if (code == infinity) bits = 0x7f80;
    if (code >= nan) bits = 0x7fc0;
    table.low[code] = static_cast<uint8_t>(bits & 0xff);
    table.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  return table;
}
static constexpr CodeTable integer_table() {
  CodeTable table{};
  for (int code = 0; code < 128; ++code) {
    table.low[code] = static_cast<uint8_t>(bf16_of(code, 0) & 0xff);
    table.high[code] = static_cast<uint8_t>(bf16_of(code, 0) >> 8);
  }
  return table;
}
static constexpr CodeTable kE4M3Table = float_table(3, 7, 128, 0x7f);
static constexpr CodeTable kE5M2Table = float_table(2, 15, 0x7c, 0x7d);
static constexpr CodeTable kIntegerTable = integer_table();

// Returns a vector whose byte i is code i / 2.
QUIRE_SIMD __m512i spread_codes(const uint8_t* p) {
  const __m512i bytes =
      _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  const __m512i twice = _mm512_set_epi64(0x1f1f1e1e1d1d1c1c, 0x1b1b1a1a19191818, 0x1717161615151414,
                                         0x1313121211111010, 0x0f0f0e0e0d0d0c0c, 0x0b0b0a0a09090808,
                                         0x0707060605050404, 0x0303020201010000);
  return _mm512_permutexvar_epi8(twice, bytes);
}

// Looks up `magnitude` in the table and adds the sign bit of `sign`.
QUIRE_SIMD Pairs look_up(const CodeTable& table, __m512i magnitude, __m512i sign) {
  const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(table.low), magnitude,
                                               _mm512_load_si512(table.low + 64));
  const __m512i high = _mm512_permutex2var_epi8(_mm512_load_si512(table.high), magnitude,
                                                _mm512_load_si512(table.high + 64));
  // The even bytes are those of `low`, the odd ones those of `high`.
  const __m512i value = _mm512_ternarylogic_epi32(_mm512_set1_epi16(0xff), low, high, 0xca);
  return _mm512_ternarylogic_epi32(value, sign, _mm512_set1_epi16(-0x8000), 0xf8);
}

QUIRE_SIMD Pairs load_e4m3_pairs(const uint8_t* p) {
  const __m512i codes = spread_codes(p);
  return look_up(kE4M3Table, codes, codes);
}
QUIRE_SIMD Pairs load_e5m2_pairs(const uint8_t* p) {
  const __m512i codes = spread_codes(p);
  return look_up(kE5M2Table, codes, codes);
}
QUIRE_SIMD Pairs load_int8_pairs(const uint8_t* p) {
  const __m512i codes = spread_codes(p);
  return look_up(kIntegerTable, _mm512_abs_epi8(codes), codes);
}
QUIRE_SIMD void store_pairs(uint16_t* p, Pairs pairs) { _mm512_storeu_si512(p, pairs); }

// The order that takes bytes of two vectors in turn, from byte `first` of each on.
struct alignas(64) ByteOrder {
  uint8_t index[64];
};
static constexpr ByteOrder interleave_from(int first) {
  ByteOrder order{};
  for (int i = 0; i < 64; ++i) {
    order.index[i] = static_cast<uint8_t>(first + i / 2 + (i % 2 == 0 ? 0 : 64));
  }
  return order;
}
static constexpr ByteOrder kInterleaveLow = interleave_from(0);
static constexpr ByteOrder kInterleaveHigh = interleave_from(32);

// 64 codes are looked up at once and their bytes are joined afterwards, which is half the work of
// two calls of load16().
QUIRE_SIMD __m512i load_two(const uint8_t* p, const uint8_t* q) {
  const __m512i low =
      _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_inserti64x4(low, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q)), 1);
}
QUIRE_SIMD void look_up_two(const CodeTable& table, __m512i magnitudes, __m512i signs, Pairs* a,
                            Pairs* b) {
  const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(table.low), magnitudes,
                                               _mm512_load_si512(table.low + 64));
  const __m512i magnitude = _mm512_permutex2var_epi8(_mm512_load_si512(table.high), magnitudes,
                                                     _mm512_load_si512(table.high + 64));
  const __m512i high =
      _mm512_ternarylogic_epi32(magnitude, signs, _mm512_set1_epi8(-128), 0xf8);  // | (and)
  *a = _mm512_permutex2var_epi8(low, _mm512_load_si512(kInterleaveLow.index), high);
  *b = _mm512_permutex2var_epi8(low, _mm512_load_si512(kInterleaveHigh.index), high);
}

#elif defined(__AVX2__)

// Return 16 words: the codes at even places, or at odd ones.
QUIRE_SIMD __m256i even_codes(const uint8_t* p) {
  const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm256_and_si256(v, _mm256_set1_epi16(0xff));
}
QUIRE_SIMD __m256i odd_codes(const uint8_t* p) {
  return _mm256_srli_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), 8);
}
#ifdef __AVX512F__
QUIRE_SIMD F16 half_to_float(__m256i v) { return _mm512_cvtph_ps(v); }
QUIRE_SIMD F16 words_to_float(__m256i v) { return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(v)); }
#else
QUIRE_SIMD F16 half_to_float(__m256i v) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(v)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1))};
}
QUIRE_SIMD F16 words_to_float(__m256i v) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(v))),
          _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(v, 1)))};
}
#endif
// As the bits of a float16, an e4m3 code has an exponent that is 8 too small.
QUIRE_SIMD F16 e4m3_words(__m256i codes) {
  const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
  const __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
  const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(codes, magnitude), 8);
  const __m256i bits = _mm256_or_si256(_mm256_slli_epi16(magnitude, 7),
                                       _mm256_and_si256(nan, _mm256_set1_epi16(0x7c00)));
  return mul(half_to_float(_mm256_or_si256(bits, sign)), set1(256.0f));
}
QUIRE_SIMD F16 int8_words(__m256i codes) {
  return words_to_float(_mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 8));
}
QUIRE_SIMD Pairs load_e4m3_pairs(const uint8_t* p) {
  return {e4m3_words(even_codes(p)), e4m3_words(odd_codes(p))};
}
QUIRE_SIMD Pairs load_e5m2_pairs(const uint8_t* p) {
  return {half_to_float(_mm256_slli_epi16(even_codes(p), 8)),
          half_to_float(_mm256_slli_epi16(odd_codes(p), 8))};
}
QUIRE_SIMD Pairs load_int8_pairs(const uint8_t* p) {
  return {int8_words(even_codes(p)), int8_words(odd_codes(p))};
}
#ifdef __AVX512F__
QUIRE_SIMD void store_pairs(uint16_t* p, Pairs pairs) {
  const __m512i even = _mm512_srli_epi32(_mm512_castps_si512(pairs.even), 16);
  const __m512i odd = _mm512_and_si512(_mm512_castps_si512(pairs.odd),
                                       _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  _mm512_storeu_si512(p, _mm512_or_si512(even, odd));
}
#else
QUIRE_SIMD __m256i pair_words(__m256 even, __m256 odd) {
  return _mm256_blend_epi16(_mm256_srli_epi32(as_int(even), 16), as_int(odd), 0xaa);
}
QUIRE_SIMD void store_pairs(uint16_t* p, Pairs pairs) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), pair_words(pairs.even.lo, pairs.odd.lo));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 16), pair_words(pairs.even.hi, pairs.odd.hi));
}
#endif

#else

struct CodeValues {
  float value[256];
};
static constexpr CodeValues float_values(int mantissa_bits, int bias, int infinity, int nan) {
  CodeValues values{};
  for (int code = 0; code < 256; ++code) {
    const int magnitude = code & 0x7f;
    const int exponent = magnitude >> mantissa_bits;
    const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
    float value = static_cast<float>(exponent == 0 ? mantissa : mantissa | 1 << mantissa_bits);
    for (int e = (exponent == 0 ? 1 : exponent); e < bias + mantissa_bits; ++e) value *= 0.5f;
    for (int e = bias + mantissa_bits; e < exponent; ++e) value *= 2.0f;
    if (magnitude == infinity) value = __builtin_inff();
    if (magnitude >= nan) value = __builtin_nanf("");
    values.value[code] = code < 128 ? value : -value;
  }
  return values;
}
static constexpr CodeValues kE4M3Values = float_values(3, 7, 128, 0x7f);
static constexpr CodeValues kE5M2Values = float_values(2, 15, 0x7c, 0x7d);

QUIRE_SIMD Pairs look_up(const CodeValues& values, const uint8_t* p) {
  Pairs pairs;
  for (int i = 0; i < 16; ++i) {
    pairs.even[i] = values.value[p[2 * i]];
    pairs.odd[i] = values.value[p[2 * i + 1]];
  }
  return pairs;
}
QUIRE_SIMD Pairs load_e4m3_pairs(const uint8_t* p) { return look_up(kE4M3Values, p); }
QUIRE_SIMD Pairs load_e5m2_pairs(const uint8_t* p) { return look_up(kE5M2Values, p); }
QUIRE_SIMD Pairs load_int8_pairs(const uint8_t* p) {
  Pairs pairs;
  for (int i = 0; i < 16; ++i) {
    pairs.even[i] = static_cast<float>(static_cast<int8_t>(p[2 * i]));
    pairs.odd[i] = static_cast<float>(static_cast<int8_t>(p[2 * i + 1]));
  }
  return pairs;
}
QUIRE_SIMD void store_pairs(uint16_t* p, Pairs pairs) {
  const U16 words = (U16)pairs.even >> 16 | ((U16)pairs.odd & 0xffff0000u);
  __builtin_memcpy(p, &words, sizeof words);
}

#endif

// Codes of 8 bits in pairs, which are decoded to bf16 exactly and multiplied as bf16.
struct CacheE4M3 : CacheBf16 {
  using Element = uint8_t;
  QUIRE_SIMD Pairs load16(const uint8_t* p) { return load_e4m3_pairs(p); }
#ifdef __AVX512VBMI__
  QUIRE_SIMD void decode_two(const uint8_t* p, const uint8_t* q, Pairs* a, Pairs* b) {
    const __m512i codes = load_two(p, q);
    look_up_two(kE4M3Table, codes, codes, a, b);
  }
#endif
};
struct CacheE5M2 : CacheBf16 {
  using Element = uint8_t;
  QUIRE_SIMD Pairs load16(const uint8_t* p) { return load_e5m2_pairs(p); }
#ifdef __AVX512VBMI__
  QUIRE_SIMD void decode_two(const uint8_t* p, const uint8_t* q, Pairs* a, Pairs* b) {
    const __m512i codes = load_two(p, q);
    look_up_two(kE5M2Table, codes, codes, a, b);
  }
#endif
};
struct CacheInt8 : CacheBf16 {
  using Element = uint8_t;
  QUIRE_SIMD Pairs load16(const uint8_t* p) { return load_int8_pairs(p); }
#ifdef __AVX512VBMI__
  QUIRE_SIMD void decode_two(const uint8_t* p, const uint8_t* q, Pairs* a, Pairs* b) {
    const __m512i codes = load_two(p, q);
    look_up_two(kIntegerTable, _mm512_abs_epi8(codes), codes, a, b);
  }
#endif
};

}  // namespace
}  // namespace quire

#endif
