// Decodes codes to pairs of values in vector extensions. Integers are shifted, masked and
// converted; other codes are looked up one by one. quant_tables.h describes the planes.
#pragma once

#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

#define QUIRE_SIMD_MEMBER inline __attribute__((always_inline))

// Returns the W bits of k = 2 J + P of a chunk in the low bits of each word, with other bits 0.
template <int W, int J, int P>
QUIRE_SIMD U16 plane_bits(const uint8_t* plane) {
  constexpr int kPairs = 16 / W;  // per vector
  U16 v;
  __builtin_memcpy(&v, plane + J / kPairs * 64, sizeof v);
  return v >> (16 * P + W * (J % kPairs)) & ((1u << W) - 1u);
}

template <cpu::CodeKind KIND, int J, int P>
QUIRE_SIMD U16 code_words(const uint8_t* strip) {
  using namespace cpu;
  if constexpr (KIND == kCode2) {
    return plane_bits<2, J, P>(strip);
  } else if constexpr (KIND == kCode3) {
    return plane_bits<2, J, P>(strip) | plane_bits<1, J, P>(strip + 128) << 2;
  } else if constexpr (KIND == kCode4 || KIND == kTable4) {
    return plane_bits<4, J, P>(strip);
  } else if constexpr (KIND == kCode5) {
    return plane_bits<4, J, P>(strip) | plane_bits<1, J, P>(strip + 256) << 4;
  } else if constexpr (KIND == kCode6) {
    return plane_bits<4, J, P>(strip) | plane_bits<2, J, P>(strip + 256) << 4;
  } else {
    return plane_bits<8, J, P>(strip);
  }
}

// Computes c = q - offset, or looks c up.
template <cpu::CodeKind KIND>
struct Decoder {
  static constexpr bool kLooksUp = KIND == cpu::kTable4 || KIND == cpu::kTable8;
  const float* table;
  QUIRE_SIMD_MEMBER explicit Decoder(const cpu::CodeValues& values) : table(values.f32) {}
  template <int J>
  QUIRE_SIMD_MEMBER Pairs pair(const uint8_t* strip) const {
    return {value(code_words<KIND, J, 0>(strip)), value(code_words<KIND, J, 1>(strip))};
  }
  QUIRE_SIMD_MEMBER F16 value(U16 codes) const {
    if constexpr (kLooksUp) {
      F16 v;
      for (int i = 0; i < 16; ++i) v[i] = table[codes[i]];
      return v;
    } else {
      return __builtin_convertvector((I16)codes, F16) + set1(table[0]);
    }
  }
};

QUIRE_SIMD void store_pairs(uint16_t* p, Pairs b) {
  const U16 words = (U16)b.even >> 16 | (U16)b.odd;
  __builtin_memcpy(p, &words, sizeof words);
}

QUIRE_SIMD F16 load_u8(const uint8_t* p) {
  F16 v;
  for (int i = 0; i < 16; ++i) v[i] = p[i];
  return v;
}
QUIRE_SIMD F16 load_i8(const uint8_t* p) {
  F16 v;
  for (int i = 0; i < 16; ++i) v[i] = static_cast<int8_t>(p[i]);
  return v;
}
// Loads the low and the high nibbles of 16 bytes as floats.
QUIRE_SIMD void load_u4_pair(const uint8_t* p, F16* low, F16* high) {
  for (int i = 0; i < 16; ++i) {
    (*low)[i] = static_cast<float>(p[i] & 15);
    (*high)[i] = static_cast<float>(p[i] >> 4);
  }
}

}  // namespace
}  // namespace quire
