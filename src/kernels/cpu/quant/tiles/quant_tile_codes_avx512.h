// Codes to the bf16 pairs of a tile with AVX-512 and its half-precision arithmetic, which
// multiplies twice as many weights at a time as float does. See
// quant_tile_codes-inl.h for the contract.
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

QUIRE_SIMD F16 fused(F16 a, F16 b, F16 c) { return fma(a, b, c); }

// Codes as pairs of bf16, which stand for them exactly.
template <cpu::CodeKind KIND>
using ExactCodes = Decoder<KIND == cpu::kTable4 ? cpu::kCode4 : KIND>;

// Pairs J … END - 1 of a chunk of a strip as exact codes, 64 bytes each.
template <int J, int END, class Codes>
QUIRE_SIMD void decode_exact(const Codes& codes, const uint8_t* strip, uint8_t* out) {
  if constexpr (J < END) {
    store_pairs(reinterpret_cast<uint16_t*>(out), codes.template pair<J>(strip));
    decode_exact<J + 1, END>(codes, strip, out + 64);
  }
}

struct StripFactors {
  uint16_t scale[2 * cpu::kQuantStrip];  // float16, every one twice, as the weights of a pair
  uint16_t zero[2 * cpu::kQuantStrip];
};

QUIRE_SIMD void store_twice(uint16_t* out, F16 x) {
  const __m512i half =
      _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm512_storeu_si512(out, _mm512_or_si512(half, _mm512_slli_epi32(half, 16)));
}
QUIRE_SIMD void set_scale(StripFactors& factors, F16 scale) { store_twice(factors.scale, scale); }
QUIRE_SIMD void set_zero(StripFactors& factors, F16 zero) { store_twice(factors.zero, zero); }

// 1024 + q as float16 is 0x6400 | q: codes become numbers without a conversion.
constexpr int16_t kHalfMagic = 0x6400;
constexpr float kHalfMagicValue = 1024.0f;

QUIRE_SIMD __m512h half_pairs(float x) {
  return (__m512h)_mm512_set1_epi16(
      static_cast<int16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set1_ps(x), 0), 0)));
}
QUIRE_SIMD __m512h with_magic(__m512i codes, int16_t mask) {
  constexpr int kAndOr = 0xea;  // (first & second) | third
  return (__m512h)_mm512_ternarylogic_epi32(codes, _mm512_set1_epi16(mask),
                                            _mm512_set1_epi16(kHalfMagic), kAndOr);
}

// c of every code, in units of kUnit, as float16 pairs.
template <cpu::CodeKind KIND>
struct TileCodes {
  static constexpr float kUnit = 1.0f;
  __m512i table;   // of 32 values, repeated
  __m512h origin;  // of codes that are not looked up: kHalfMagicValue + offset

  QUIRE_SIMD_MEMBER explicit TileCodes(const cpu::CodeValues& values) {
    const __m256i low = _mm512_cvtps_ph(load(values.f32), 0);
    const __m256i high = _mm512_cvtps_ph(load(values.f32 + 16), 0);
    table = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    origin = half_pairs(kHalfMagicValue - values.f32[0]);
  }
  template <int J>
  QUIRE_SIMD_MEMBER __m512h pair(const uint8_t* strip) const {
    using namespace cpu;
    if constexpr (KIND == kCode2) {
      return look_up(plane_bits<2, J, 0>(strip));
    } else if constexpr (KIND == kCode3) {
      return look_up(join_bits<2>(plane_bits<2, J, 0>(strip), plane_bits<1, J, 2>(strip + 128)));
    } else if constexpr (KIND == kCode4 || KIND == kTable4) {
      return look_up(plane_bits<4, J, 0>(strip));
    } else if constexpr (KIND == kCode5) {
      return look_up(join_bits<4>(plane_bits<4, J, 0>(strip), plane_bits<1, J, 4>(strip + 256)));
    } else if constexpr (KIND == kCode6) {
      const __m512i codes =
          join_bits<4>(plane_bits<4, J, 0>(strip), plane_bits<2, J, 4>(strip + 256));
      return _mm512_sub_ph(with_magic(codes, 63), origin);
    } else {
      return _mm512_sub_ph(with_magic(plane_bits<8, J, 0>(strip), 255), origin);
    }
  }
  QUIRE_SIMD_MEMBER __m512h look_up(__m512i index) const {
    return (__m512h)_mm512_permutexvar_epi16(index, table);
  }
};

// e4m3: moved, its bits are float16's of c * 2^-8.
template <>
struct TileCodes<cpu::kTable8> {
  static constexpr float kUnit = 0x1p-8f;
  QUIRE_SIMD_MEMBER explicit TileCodes(const cpu::CodeValues&) {}
  template <int J>
  QUIRE_SIMD_MEMBER __m512h pair(const uint8_t* strip) const {
    const __m512i top = plane_bits<8, J, 8>(strip);  // sign and magnitude in the upper byte
    return (__m512h)_mm512_and_si512(_mm512_srai_epi16(top, 1),
                                     _mm512_set1_epi16(static_cast<int16_t>(0xbf80)));
  }
};

// float16 times 2^-112 as bf16, which moves its bits by three: rounded to nearest, ties away from
// zero.
QUIRE_SIMD __m512i to_tile_pairs(__m512h weights) {
  // (bits * 2^12 + 2^14) >> 15
  const __m512i moved = _mm512_mulhrs_epi16((__m512i)weights, _mm512_set1_epi16(1 << 12));
  return _mm512_and_si512(moved, _mm512_set1_epi16(static_cast<int16_t>(0x8fff)));
}

// Pairs J … END - 1 of a chunk of a strip, 64 bytes each.
template <cpu::CodeKind KIND, ZeroKind ZERO, int J, int END>
QUIRE_SIMD void unpack_pairs(const TileCodes<KIND>& codes, const uint8_t* strip,
                             const StripFactors& factors, uint8_t* out) {
  if constexpr (J < END) {
    const __m512h scale = (__m512h)_mm512_loadu_si512(factors.scale);
    const __m512h zero = (__m512h)_mm512_loadu_si512(factors.zero);
    __m512h c = codes.template pair<J>(strip);
    if constexpr (ZERO == ZeroKind::kInteger) c = _mm512_sub_ph(c, zero);
    if constexpr (ZERO == ZeroKind::kMin) {
      c = _mm512_fmsub_ph(c, scale, zero);
    } else {
      c = _mm512_mul_ph(c, scale);
    }
    _mm512_storeu_si512(out, to_tile_pairs(c));
    unpack_pairs<KIND, ZERO, J + 1, END>(codes, strip, factors, out + 64);
  }
}

}  // namespace
}  // namespace quire
