// FP8 e4m3fn in integer arithmetic, which is the same on every GPU; sm_80 has no instruction for
// it. The host's version is base/float8.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_code.h"

namespace quire::cuda {

// Exact. The code's exponent and mantissa, shifted to a float's, are 2^-120 times the value, also
// if they are subnormal.
QUIRE_DEVICE float widen_e4m3(uint32_t code) {
  const uint32_t magnitude = (code & 0x7fu) << 20;
  const float value = magnitude == 0x07f00000u
                          ? ptx::bits_to_float(0x7fc00000u)
                          : ptx::multiply(ptx::bits_to_float(magnitude), 0x1p120f);
  return ptx::bits_to_float(ptx::float_to_bits(value) | (code & 0x80u) << 24);
}

// Rounds to nearest even and saturates at 448; NaN stays NaN.
QUIRE_DEVICE uint8_t narrow_e4m3(float x) {
  const uint32_t bits = ptx::float_to_bits(x);
  const uint32_t sign = bits >> 24 & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t code = 0;
  if (magnitude > 0x7f800000u) {
    code = 0x7fu;
  } else if (magnitude >= 0x43e80000u) {  // 464, half-way to the value after 448
    code = 0x7eu;
  } else if (magnitude >= 0x3c800000u) {  // 2^-6, the least normal value
    code = ((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - (120u << 3);
  } else {  // multiples of 2^-9: adding 2^14 (ulp 2^-9) rounds to them
    const float sum = ptx::add(ptx::bits_to_float(magnitude), 0x1p14f);
    code = ptx::float_to_bits(sum) & 0xfu;
  }
  return static_cast<uint8_t>(sign | code);
}

// 16 codes as bf16, in two chunks of a tile.
struct Bf16Chunks {
  Elements<4, uint32_t> at[2];
};
QUIRE_DEVICE Bf16Chunks expand_e4m3(const Elements<4, uint32_t>& codes) {
  Bf16Chunks chunks;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t pair = codes.at[i / 2] >> (i % 2 * 16);
    chunks.at[i / 4].at[i % 4] =
        ptx::pack_bf16(widen_e4m3(pair & 0xffu), widen_e4m3(pair >> 8 & 0xffu));
  }
  return chunks;
}

// Four codes as bf16: those of bytes 0 and 2, and of bytes 1 and 3. This takes a third of the
// instructions of expand_e4m3(), but the code for NaN becomes 480, as if it were an ordinary
// number.
struct Bf16Pairs {
  uint32_t even;
  uint32_t odd;
};
QUIRE_DEVICE uint32_t widen_upper_bytes(uint32_t codes) {
  constexpr uint32_t kPower = 0x7b807b80u;          // 2^120, as in widen_e4m3()
  constexpr uint32_t kNegativeZeros = 0x80008000u;  // adding it preserves the sign of a zero
  const uint32_t scaled = (codes >> 4 & 0x07f007f0u) | (codes & 0x80008000u);
  return ptx::multiply_add_bf16x2(scaled, kPower, kNegativeZeros);
}
QUIRE_DEVICE Bf16Pairs widen_pairs(uint32_t codes) {
  return {widen_upper_bytes(codes << 8), widen_upper_bytes(codes)};
}

}  // namespace quire::cuda
