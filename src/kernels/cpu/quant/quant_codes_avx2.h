// Decodes codes to pairs of values with AVX2. Integers are shifted, masked and converted; 4-bit
// codebooks are looked up. quant_tables.h describes the planes.
#pragma once

#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

#define QUIRE_SIMD_MEMBER inline __attribute__((always_inline))

template <int SHIFT>
QUIRE_SIMD __m256i shift_word(__m256i v) {
  if constexpr (SHIFT > 0) {
    return _mm256_srli_epi32(v, SHIFT);
  } else if constexpr (SHIFT < 0) {
    return _mm256_slli_epi32(v, -SHIFT);
  } else {
    return v;
  }
}

// Returns the W bits of k = 2 J + P of a chunk at bit POSITION of each 32-bit word, with other bits
// 0, for outputs 8 * HALF … 8 * HALF + 7 of the strip.
template <int W, int J, int P, int POSITION>
QUIRE_SIMD __m256i plane_bits(const uint8_t* plane, int half) {
  constexpr int kPairs = 16 / W;  // per vector
  const auto* from = reinterpret_cast<const __m256i*>(plane + J / kPairs * 64 + half * 32);
  constexpr int kShift = 16 * P + W * (J % kPairs) - POSITION;
  const __m256i v = shift_word<kShift>(_mm256_loadu_si256(from));
  if constexpr (kShift == 32 - W && POSITION == 0) {
    return v;
  } else {
    return _mm256_and_si256(v, _mm256_set1_epi32(((1 << W) - 1) << POSITION));
  }
}

template <cpu::CodeKind KIND, int J, int P>
QUIRE_SIMD __m256i code_words(const uint8_t* strip, int half) {
  using namespace cpu;
  if constexpr (KIND == kCode2) {
    return plane_bits<2, J, P, 0>(strip, half);
  } else if constexpr (KIND == kCode3) {
    return _mm256_or_si256(plane_bits<2, J, P, 0>(strip, half),
                           plane_bits<1, J, P, 2>(strip + 128, half));
  } else if constexpr (KIND == kCode4 || KIND == kTable4) {
    return plane_bits<4, J, P, 0>(strip, half);
  } else if constexpr (KIND == kCode5) {
    return _mm256_or_si256(plane_bits<4, J, P, 0>(strip, half),
                           plane_bits<1, J, P, 4>(strip + 256, half));
  } else if constexpr (KIND == kCode6) {
    return _mm256_or_si256(plane_bits<4, J, P, 0>(strip, half),
                           plane_bits<2, J, P, 4>(strip + 256, half));
  } else {
    return plane_bits<8, J, P, 0>(strip, half);
  }
}

// Returns the W bits of both k of pair J of a chunk at bit POSITION of each half of a word, with
// other bits 0.
template <int W, int J, int POSITION>
QUIRE_SIMD __m256i plane_pairs(const uint8_t* plane, int half) {
  constexpr int kPairs = 16 / W;  // per vector
  const __m256i v =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(plane + J / kPairs * 64 + half * 32));
  constexpr int kShift = W * (J % kPairs) - POSITION;
  const __m256i shifted = kShift > 0   ? _mm256_srli_epi16(v, kShift)
                          : kShift < 0 ? _mm256_slli_epi16(v, -kShift)
                                       : v;
  if constexpr (kShift == 16 - W && POSITION == 0) {
    return shifted;
  } else {
    return _mm256_and_si256(shifted, _mm256_set1_epi16(((1 << W) - 1) << POSITION));
  }
}

// Computes c = q - offset: q in the low bits of 2^23 makes the float 2^23 + q, from which 2^23 +
// offset is subtracted.
template <cpu::CodeKind KIND>
struct Decoder {
  __m256 base;
  QUIRE_SIMD_MEMBER explicit Decoder(const cpu::CodeValues& values)
      : base(_mm256_set1_ps(0x1p23f - values.f32[0])) {}
  template <int J>
  QUIRE_SIMD_MEMBER Pairs pair(const uint8_t* strip) const {
    return {{value<J, 0>(strip, 0), value<J, 0>(strip, 1)},
            {value<J, 1>(strip, 0), value<J, 1>(strip, 1)}};
  }
  template <int J, int P>
  QUIRE_SIMD_MEMBER __m256 value(const uint8_t* strip, int half) const {
    const __m256i magic = _mm256_castps_si256(_mm256_set1_ps(0x1p23f));
    const __m256i word = _mm256_or_si256(code_words<KIND, J, P>(strip, half), magic);
    return _mm256_sub_ps(_mm256_castsi256_ps(word), base);
  }
};

template <>
struct Decoder<cpu::kTable4> {
  __m256 low, high;
  QUIRE_SIMD_MEMBER explicit Decoder(const cpu::CodeValues& values)
      : low(_mm256_loadu_ps(values.f32)), high(_mm256_loadu_ps(values.f32 + 8)) {}
  template <int J>
  QUIRE_SIMD_MEMBER Pairs pair(const uint8_t* strip) const {
    return {{value<J, 0>(strip, 0), value<J, 0>(strip, 1)},
            {value<J, 1>(strip, 0), value<J, 1>(strip, 1)}};
  }
  template <int J, int P>
  QUIRE_SIMD_MEMBER __m256 value(const uint8_t* strip, int half) const {
    const __m256i code = code_words<cpu::kTable4, J, P>(strip, half);
    const __m256 bit3 = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, code),
                            _mm256_permutevar8x32_ps(high, code), bit3);
  }
};

// FP8 e4m3 is the only table of 8 bits. Both k of a pair become bf16 at once: the code is shifted
// to the fields of a bf16, and the exponent is rebased. Codes with exponent 0 are multiples of
// 2^-9, which are looked up byte by byte. Few vectors of weights have such codes, so a branch skips
// that for the others.
template <>
struct Decoder<cpu::kTable8> {
  QUIRE_SIMD_MEMBER explicit Decoder(const cpu::CodeValues&) {}
  template <int J>
  QUIRE_SIMD_MEMBER Pairs pair(const uint8_t* strip) const {
    __m256i low = fields<J>(strip, 0), high = fields<J>(strip, 1);
    const __m256i exponent = _mm256_set1_epi16(15 << 7);
    const __m256i least =
        _mm256_min_epi16(_mm256_and_si256(low, exponent), _mm256_and_si256(high, exponent));
    const int none = _mm256_movemask_epi8(_mm256_cmpeq_epi16(least, _mm256_setzero_si256()));
    if (__builtin_expect(none == 0, 1)) {
      const __m256i bias = _mm256_set1_epi16(kBias);
      low = _mm256_add_epi16(low, bias);
      high = _mm256_add_epi16(high, bias);
    } else {
      low = with_subnormals(low);
      high = with_subnormals(high);
    }
    return {{even(low), even(high)}, {odd(low), odd(high)}};
  }

  static constexpr int kBias = (127 - 7) << 7;
  // Returns sign, exponent and fraction in the fields of a bf16.
  template <int J>
  QUIRE_SIMD_MEMBER static __m256i fields(const uint8_t* strip, int half) {
    __m256i v =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(strip + J / 2 * 64 + half * 32));
    if constexpr (J % 2 == 0) v = _mm256_slli_epi16(v, 8);
    constexpr int kFields = static_cast<int16_t>(0x87f0);
    return _mm256_and_si256(_mm256_srai_epi16(v, 4), _mm256_set1_epi16(kFields));
  }
  QUIRE_SIMD_MEMBER static __m256i with_subnormals(__m256i fields) {
    const __m256i magnitude = _mm256_srli_epi16(_mm256_slli_epi16(fields, 1), 5);
    // The low bytes of m * 2^-9 for m = 0 ... 7, then the high bytes.
    const __m256i bytes =
        _mm256_broadcastsi128_si256(_mm_set_epi64x(0x3c3c3c3c3b3b3b00, 0x60402000c0800000));
    const __m256i byte_index = _mm256_add_epi16(
        _mm256_mullo_epi16(magnitude, _mm256_set1_epi16(0x101)), _mm256_set1_epi16(0x800));
    const __m256i sign = _mm256_and_si256(fields, _mm256_set1_epi16(INT16_MIN));
    const __m256i subnormal = _mm256_or_si256(sign, _mm256_shuffle_epi8(bytes, byte_index));
    const __m256i normal = _mm256_add_epi16(fields, _mm256_set1_epi16(kBias));
    return _mm256_blendv_epi8(normal, subnormal,
                              _mm256_cmpgt_epi16(_mm256_set1_epi16(8), magnitude));
  }
  QUIRE_SIMD_MEMBER static __m256 even(__m256i pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  }
  QUIRE_SIMD_MEMBER static __m256 odd(__m256i pairs) {
    constexpr int kHigh = static_cast<int>(0xffff0000);
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(kHigh)));
  }
};

// --- codes as integers of 16 bits

QUIRE_SIMD __m256i broadcast_integer_pair(const float* x) {
  return _mm256_castps_si256(_mm256_broadcast_ss(x));
}
// Adds modulo 2^32: the sums of tables exceed 2^31 until the offset of their words is subtracted
// here.
QUIRE_SIMD Sums16 add_to_all(Sums16 sum, const float* word) {
  const __m256i x = broadcast_integer_pair(word);
  return {(Sums8)_mm256_add_epi32((__m256i)sum.lo, x), (Sums8)_mm256_add_epi32((__m256i)sum.hi, x)};
}
// Makes the compiler compute the sum here, into registers. Dot product instructions need no such
// barrier.
QUIRE_SIMD void settle_sums([[maybe_unused]] Sums16& sum) {
#ifndef __AVXVNNI__
  asm("" : "+x"(sum.lo), "+x"(sum.hi));
#endif
}

// Returns q, without the offset.
template <cpu::CodeKind KIND>
struct IntegerCodes {
  QUIRE_SIMD_MEMBER explicit IntegerCodes(const cpu::CodeValues&) {}
  template <int J>
  QUIRE_SIMD_MEMBER IntegerPairs pair(const uint8_t* strip) const {
    return {words<J>(strip, 0), words<J>(strip, 1)};
  }
  template <int J>
  QUIRE_SIMD_MEMBER __m256i words(const uint8_t* strip, int half) const {
    using namespace cpu;
    if constexpr (KIND == kCode2) {
      return plane_pairs<2, J, 0>(strip, half);
    } else if constexpr (KIND == kCode3) {
      return _mm256_or_si256(plane_pairs<2, J, 0>(strip, half),
                             plane_pairs<1, J, 2>(strip + 128, half));
    } else if constexpr (KIND == kCode4) {
      return plane_pairs<4, J, 0>(strip, half);
    } else if constexpr (KIND == kCode5) {
      return _mm256_or_si256(plane_pairs<4, J, 0>(strip, half),
                             plane_pairs<1, J, 4>(strip + 256, half));
    } else if constexpr (KIND == kCode6) {
      return _mm256_or_si256(plane_pairs<4, J, 0>(strip, half),
                             plane_pairs<2, J, 4>(strip + 256, half));
    } else {
      return plane_pairs<8, J, 0>(strip, half);
    }
  }
};

// Looks values up byte by byte. The upper bytes of words look up code 0 and so get the first value,
// which QuantLayout::integer_offset subtracts again.
template <>
struct IntegerCodes<cpu::kTable4> {
  __m256i steps;
  QUIRE_SIMD_MEMBER explicit IntegerCodes(const cpu::CodeValues& values)
      : steps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values.steps))) {}
  template <int J>
  QUIRE_SIMD_MEMBER IntegerPairs pair(const uint8_t* strip) const {
    return {_mm256_shuffle_epi8(steps, plane_pairs<4, J, 0>(strip, 0)),
            _mm256_shuffle_epi8(steps, plane_pairs<4, J, 0>(strip, 1))};
  }
};

QUIRE_SIMD __m256i join_words(__m256 even, __m256 odd) {
  return _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(even), 16),
                         _mm256_castps_si256(odd));
}
QUIRE_SIMD void store_pairs(uint16_t* p, Pairs b) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), join_words(b.even.lo, b.odd.lo));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 16), join_words(b.even.hi, b.odd.hi));
}

QUIRE_SIMD __m256 u8_floats(const uint8_t* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
QUIRE_SIMD __m256 i8_floats(const uint8_t* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
QUIRE_SIMD F16 load_u8(const uint8_t* p) { return {u8_floats(p), u8_floats(p + 8)}; }
QUIRE_SIMD F16 load_i8(const uint8_t* p) { return {i8_floats(p), i8_floats(p + 8)}; }
QUIRE_SIMD void u4_floats(const uint8_t* p, __m256* low, __m256* high) {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  *low = _mm256_cvtepi32_ps(_mm256_and_si256(bytes, _mm256_set1_epi32(15)));
  *high = _mm256_cvtepi32_ps(_mm256_srli_epi32(bytes, 4));
}
// Loads the low and the high nibbles of 16 bytes as floats.
QUIRE_SIMD void load_u4_pair(const uint8_t* p, F16* low, F16* high) {
  u4_floats(p, &low->lo, &high->lo);
  u4_floats(p + 8, &low->hi, &high->hi);
}

}  // namespace
}  // namespace quire
