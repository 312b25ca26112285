// Decodes codes to pairs of values with AVX-512. Codes are looked up among bf16 values in
// registers, except integers of 8 bits. quant_tables.h describes the planes.
#pragma once

#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

#define QUIRE_SIMD_MEMBER inline __attribute__((always_inline))

// Shifts the 16-bit halves of words right by SHIFT, or left if it is negative.
template <int SHIFT>
QUIRE_SIMD __m512i shift_halves(__m512i v) {
  if constexpr (SHIFT > 0) {
    return _mm512_srli_epi16(v, SHIFT);
  } else if constexpr (SHIFT < 0) {
    return _mm512_slli_epi16(v, -SHIFT);
  } else {
    return v;
  }
}

// Returns the W bits per code of pair J of a chunk, at bit POSITION of each half. Other bits can be
// anything.
template <int W, int J, int POSITION>
QUIRE_SIMD __m512i plane_bits(const uint8_t* plane) {
  constexpr int kPairs = 16 / W;  // per vector
  return shift_halves<W*(J % kPairs) - POSITION>(_mm512_loadu_si512(plane + J / kPairs * 64));
}

template <int LOW_BITS>
QUIRE_SIMD __m512i join_bits(__m512i low, __m512i high) {
  constexpr int kSelect = 0xca;  // first ? second : third
  return _mm512_ternarylogic_epi32(_mm512_set1_epi16((1 << LOW_BITS) - 1), low, high, kSelect);
}

QUIRE_SIMD Pairs pairs_of(__m512i words) {
#ifdef __AVX512BF16__
  return words;
#else
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(words, high))};
#endif
}

// Returns pair J of a chunk from the low and the high bytes of pairs J / 2 * 2 and J / 2 * 2 + 1.
template <int J>
QUIRE_SIMD Pairs join_bytes(__m512i low, __m512i high) {
  constexpr int kSelect = 0xca;  // first ? second : third
  const __m512i mask = _mm512_set1_epi16(0xff);
  if constexpr (J % 2 == 0) {
    return pairs_of(_mm512_ternarylogic_epi32(mask, low, _mm512_slli_epi16(high, 8), kSelect));
  } else {
    return pairs_of(_mm512_ternarylogic_epi32(mask, _mm512_srli_epi16(low, 8), high, kSelect));
  }
}

// Tables are repeated up to 32 entries (64 for 6 bits), so bits above a code do not matter.
template <cpu::CodeKind KIND>
struct Decoder {
  static constexpr int kTables = KIND == cpu::kCode6 ? 2 : 1;
  __m512i table[kTables];
  QUIRE_SIMD_MEMBER explicit Decoder(const cpu::CodeValues& values) {
    for (int i = 0; i < kTables; ++i) table[i] = _mm512_loadu_si512(values.bf16 + 32 * i);
  }
  template <int J>
  QUIRE_SIMD_MEMBER Pairs pair(const uint8_t* strip) const {
    using namespace cpu;
    if constexpr (KIND == kCode2) {
      return look_up(plane_bits<2, J, 0>(strip));
    } else if constexpr (KIND == kCode3) {
      return look_up(join_bits<2>(plane_bits<2, J, 0>(strip), plane_bits<1, J, 2>(strip + 128)));
    } else if constexpr (KIND == kCode4) {
      return look_up(plane_bits<4, J, 0>(strip));
    } else if constexpr (KIND == kCode5) {
      return look_up(join_bits<4>(plane_bits<4, J, 0>(strip), plane_bits<1, J, 4>(strip + 256)));
    } else {
      return look_up(join_bits<4>(plane_bits<4, J, 0>(strip), plane_bits<2, J, 4>(strip + 256)));
    }
  }
  QUIRE_SIMD_MEMBER Pairs look_up(__m512i index) const {
    if constexpr (kTables == 2) {
      return pairs_of(_mm512_permutex2var_epi16(table[0], index, table[1]));
    } else {
      return pairs_of(_mm512_permutexvar_epi16(index, table[0]));
    }
  }
};

// Integers of 8 bits: q in the low bits of 2^23 makes the float 2^23 + q, from which 2^23 + offset
// is subtracted. Two look-ups among 128 values each would be fewer instructions, but with more
// latency (one row of q8_0: 36 instead of 40 GB/s).
template <>
struct Decoder<cpu::kCode8> {
  __m512 base;
  QUIRE_SIMD_MEMBER explicit Decoder(const cpu::CodeValues& values)
      : base(_mm512_set1_ps(0x1p23f - values.f32[0])) {}
  template <int J>
  QUIRE_SIMD_MEMBER Pairs pair(const uint8_t* strip) const {
    const __m512i codes = _mm512_loadu_si512(strip + J / 2 * 64);  // of pairs J and J + 1
    const __m512 even = value(J % 2 == 0 ? codes : _mm512_srli_epi32(codes, 8));
    const __m512 odd = value(_mm512_srli_epi32(codes, J % 2 == 0 ? 16 : 24));
#ifdef __AVX512BF16__
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16),
                           _mm512_castps_si512(odd));
#else
    return {even, odd};
#endif
  }
  // Returns the values of the low bytes.
  QUIRE_SIMD_MEMBER __m512 value(__m512i words) const {
    constexpr int kAndOr = 0xea;  // first & second | third
    const __m512i magic = _mm512_castps_si512(_mm512_set1_ps(0x1p23f));
    const __m512i sum = _mm512_ternarylogic_epi32(words, _mm512_set1_epi32(0xff), magic, kAndOr);
    return _mm512_sub_ps(_mm512_castsi512_ps(sum), base);
  }
};

// FP8 e4m3 is the only table of 8 bits. The high bit is the sign, and the other seven are looked
// up.
template <>
struct Decoder<cpu::kTable8> {
#ifdef __AVX512VBMI__
  __m512i low[2], high[2];  // the bytes of the 128 bf16 values that are not negative
  QUIRE_SIMD_MEMBER explicit Decoder(const cpu::CodeValues& values) {
    uint8_t bytes[2][128];
    for (int i = 0; i < 128; ++i) {
      bytes[0][i] = static_cast<uint8_t>(values.bf16[i]);
      bytes[1][i] = static_cast<uint8_t>(values.bf16[i] >> 8);
    }
    for (int i = 0; i < 2; ++i) {
      low[i] = _mm512_loadu_si512(bytes[0] + 64 * i);
      high[i] = _mm512_loadu_si512(bytes[1] + 64 * i);
    }
  }
  template <int J>
  QUIRE_SIMD_MEMBER Pairs pair(const uint8_t* strip) const {
    constexpr int kSelect = 0xca;                                  // first ? second : third
    const __m512i codes = _mm512_loadu_si512(strip + J / 2 * 64);  // of pairs J and J + 1
    const __m512i low_bytes = _mm512_permutex2var_epi8(low[0], codes, low[1]);
    const __m512i high_bytes = _mm512_ternarylogic_epi32(
        _mm512_set1_epi8(0x7f), _mm512_permutex2var_epi8(high[0], codes, high[1]), codes, kSelect);
    return join_bytes<J>(low_bytes, high_bytes);
  }
#else
  __m512i table[8];
  QUIRE_SIMD_MEMBER explicit Decoder(const cpu::CodeValues& values) {
    for (int i = 0; i < 8; ++i) table[i] = _mm512_loadu_si512(values.bf16 + 32 * i);
  }
  template <int J>
  QUIRE_SIMD_MEMBER Pairs pair(const uint8_t* strip) const {
    const __m512i codes = plane_bits<8, J, 0>(strip);
    const __mmask32 bit6 = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
    const __mmask32 bit7 = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x80));
    const __m512i below =
        _mm512_mask_blend_epi16(bit6, _mm512_permutex2var_epi16(table[0], codes, table[1]),
                                _mm512_permutex2var_epi16(table[2], codes, table[3]));
    const __m512i above =
        _mm512_mask_blend_epi16(bit6, _mm512_permutex2var_epi16(table[4], codes, table[5]),
                                _mm512_permutex2var_epi16(table[6], codes, table[7]));
    return pairs_of(_mm512_mask_blend_epi16(bit7, below, above));
  }
#endif
};

#ifdef __AVX512VNNI__
// --- codes as integers of 16 bits

QUIRE_SIMD __m512i broadcast_integer_pair(const float* x) {
  int word;
  __builtin_memcpy(&word, x, sizeof word);
  return _mm512_set1_epi32(word);
}
// Adds modulo 2^32: the sums of tables exceed 2^31 until the offset of their words is subtracted
// here.
QUIRE_SIMD Sums16 add_to_all(Sums16 sum, const float* word) {
  return (Sums16)_mm512_add_epi32((__m512i)sum, broadcast_integer_pair(word));
}
// Dot product instructions need no barrier.
QUIRE_SIMD void settle_sums(Sums16&) {}

// Returns q, without the offset.
template <cpu::CodeKind KIND>
struct IntegerCodes {
  QUIRE_SIMD_MEMBER explicit IntegerCodes(const cpu::CodeValues&) {}
  template <int J>
  QUIRE_SIMD_MEMBER IntegerPairs pair(const uint8_t* strip) const {
    using namespace cpu;
    if constexpr (KIND == kCode2) {
      return low_bits<2>(plane_bits<2, J, 0>(strip));
    } else if constexpr (KIND == kCode3) {
      return low_bits<3>(
          join_bits<2>(plane_bits<2, J, 0>(strip), plane_bits<1, J, 2>(strip + 128)));
    } else if constexpr (KIND == kCode4) {
      return low_bits<4>(plane_bits<4, J, 0>(strip));
    } else if constexpr (KIND == kCode5) {
      return low_bits<5>(
          join_bits<4>(plane_bits<4, J, 0>(strip), plane_bits<1, J, 4>(strip + 256)));
    } else if constexpr (KIND == kCode6) {
      return low_bits<6>(
          join_bits<4>(plane_bits<4, J, 0>(strip), plane_bits<2, J, 4>(strip + 256)));
    } else {
      return low_bits<8>(plane_bits<8, J, 0>(strip));
    }
  }
  template <int COUNT>
  QUIRE_SIMD_MEMBER static IntegerPairs low_bits(__m512i words) {
    return {_mm512_and_si512(words, _mm512_set1_epi16((1 << COUNT) - 1))};
  }
};

// Looks values up byte by byte. The upper bytes of words look up code 0 and so get the first value,
// which QuantLayout::integer_offset subtracts again.
template <>
struct IntegerCodes<cpu::kTable4> {
  __m512i steps;
  QUIRE_SIMD_MEMBER explicit IntegerCodes(const cpu::CodeValues& values)
      : steps(_mm512_loadu_si512(values.steps)) {}
  template <int J>
  QUIRE_SIMD_MEMBER IntegerPairs pair(const uint8_t* strip) const {
    const IntegerPairs codes = IntegerCodes<cpu::kCode4>::low_bits<4>(plane_bits<4, J, 0>(strip));
    return {_mm512_shuffle_epi8(steps, codes.words)};
  }
};

// --- codes as bytes, four columns of each output side by side

using CodeQuads = __m512i;
QUIRE_SIMD Sums16 code_quad_dot(Sums16 sum, CodeQuads codes, const float* x) {
  return (Sums16)_mm512_dpbusd_epi32((__m512i)sum, codes, broadcast_integer_pair(x));
}
QUIRE_SIMD CodeQuads load_code_quads(const void* p) { return _mm512_loadu_si512(p); }
QUIRE_SIMD void store_code_quads(void* p, CodeQuads codes) { _mm512_storeu_si512(p, codes); }

// Returns q of pairs J and J + 1, in the order of pack_code_quads(). A line holds four pairs of
// 4-bit codes: pairs 0 and 2 in the low nibbles of bytes, 1 and 3 in the high ones.
template <cpu::CodeKind KIND>
struct ByteCodes {
  QUIRE_SIMD_MEMBER explicit ByteCodes(const cpu::CodeValues&) {}
  template <int J>
  QUIRE_SIMD_MEMBER CodeQuads pair(const uint8_t* strip) const {
    if constexpr (KIND == cpu::kCode4) {
      const __m512i line = _mm512_loadu_si512(strip + J / 4 * 64);
      return _mm512_and_si512(J % 4 == 0 ? line : _mm512_srli_epi16(line, 4), _mm512_set1_epi8(15));
    } else if constexpr (KIND == cpu::kCode8) {
      return _mm512_loadu_si512(strip + J / 2 * 64);
    } else {
      const IntegerCodes<KIND> codes({});
      const __m512i first = codes.template pair<J>(strip).words;
      return _mm512_or_si512(first, _mm512_slli_epi16(codes.template pair<J + 1>(strip).words, 8));
    }
  }
};
#endif

QUIRE_SIMD void store_pairs(uint16_t* p, Pairs b) {
#ifdef __AVX512BF16__
  _mm512_storeu_si512(p, b);
#else
  const __m512i even = _mm512_srli_epi32(_mm512_castps_si512(b.even), 16);
  _mm512_storeu_si512(p, _mm512_or_si512(even, _mm512_castps_si512(b.odd)));
#endif
}

QUIRE_SIMD F16 load_u8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
QUIRE_SIMD F16 load_i8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
// Loads the low and the high nibbles of 16 bytes as floats.
QUIRE_SIMD void load_u4_pair(const uint8_t* p, F16* low, F16* high) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  *low = _mm512_cvtepi32_ps(_mm512_and_si512(bytes, _mm512_set1_epi32(15)));
  *high = _mm512_cvtepi32_ps(_mm512_srli_epi32(bytes, 4));
}

}  // namespace
}  // namespace quire
