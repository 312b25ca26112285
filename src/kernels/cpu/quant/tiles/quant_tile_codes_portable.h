// Codes to the bf16 pairs of a tile in vector extensions, weight by weight: bit for bit what
// quant_tile_codes_avx512.h computes. See quant_tile_codes-inl.h
// for the contract.
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

QUIRE_SIMD F16 fused(F16 a, F16 b, F16 c) {
  F16 v;
  for (int i = 0; i < 16; ++i) v[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return v;
}

template <cpu::CodeKind KIND>
using ExactCodes = Decoder<KIND>;

// Pairs J … END - 1 of a chunk of a strip as exact codes, 64 bytes each: one function
// for all kernels, as in tiles_emulated.h.
template <int J, int END, class Codes>
static __attribute__((noinline)) void decode_exact(const Codes& codes, const uint8_t* strip,
                                                   uint8_t* out) {
  if constexpr (J < END) {
    store_pairs(reinterpret_cast<uint16_t*>(out), codes.template pair<J>(strip));
    decode_exact<J + 1, END>(codes, strip, out + 64);
  }
}

struct StripFactors {
  F16 scale;  // rounded to float16
  F16 zero;
};

QUIRE_SIMD F16 round_to_f16(F16 x) {
  uint16_t bits[16];
  store_f16(bits, x);
  return load_f16(bits);
}
QUIRE_SIMD void set_scale(StripFactors& factors, F16 scale) { factors.scale = round_to_f16(scale); }
QUIRE_SIMD void set_zero(StripFactors& factors, F16 zero) { factors.zero = round_to_f16(zero); }

template <cpu::CodeKind KIND>
struct TileCodes : Decoder<KIND> {
  static constexpr float kUnit = 1.0f;
  using Decoder<KIND>::Decoder;
};

// c * scale - min rounded once to float16. The double is exact; made a float whose last bit tells
// whether anything was cut off, it rounds as the double itself would.
static uint16_t scaled_f16_bits(float c, float scale, float min) {
  const double exact = double{c} * scale - min;
  uint64_t bits;
  __builtin_memcpy(&bits, &exact, sizeof bits);
  constexpr uint64_t kBelowFloat = (uint64_t{1} << 29) - 1;
  if ((bits & kBelowFloat) != 0) bits = (bits & ~kBelowFloat) | (kBelowFloat + 1);
  double odd;
  __builtin_memcpy(&odd, &bits, sizeof odd);
  return to_f16_bits(static_cast<float>(odd));
}

static uint16_t to_tile_weight(uint16_t half) {
  const auto rounded = static_cast<int16_t>(half + 4);
  return static_cast<uint16_t>(rounded >> 3) & 0x8fffu;
}

// Pair J of a chunk of a strip.
template <cpu::CodeKind KIND, ZeroKind ZERO, int J>
static __attribute__((noinline)) void unpack_pair(const TileCodes<KIND>& codes,
                                                  const uint8_t* strip, const StripFactors& factors,
                                                  uint8_t* out) {
  const Pairs pair = codes.template pair<J>(strip);
  const F16 point = ZERO == ZeroKind::kInteger ? factors.zero : zero();
  const F16 min = ZERO == ZeroKind::kMin ? factors.zero : zero();
  const F16 values[2] = {sub(pair.even, point), sub(pair.odd, point)};
  for (int i = 0; i < 32; ++i) {
    const int n = i / 2;
    const uint16_t weight =
        to_tile_weight(scaled_f16_bits(values[i % 2][n], factors.scale[n], min[n]));
    __builtin_memcpy(out + 2 * i, &weight, sizeof weight);
  }
}

// Pairs J … END - 1 of a chunk of a strip, 64 bytes each.
template <cpu::CodeKind KIND, ZeroKind ZERO, int J, int END>
static __attribute__((noinline)) void unpack_pairs(const TileCodes<KIND>& codes,
                                                   const uint8_t* strip,
                                                   const StripFactors& factors, uint8_t* out) {
  if constexpr (J < END) {
    unpack_pair<KIND, ZERO, J>(codes, strip, factors, out);
    unpack_pairs<KIND, ZERO, J + 1, END>(codes, strip, factors, out + 64);
  }
}

}  // namespace
}  // namespace quire
