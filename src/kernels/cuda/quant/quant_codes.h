// The codes of quantized weights in the registers of tensor cores, and how they are decoded.
#pragma once

#include "kernels/cuda/device_code.h"

namespace quire::cuda {

enum class CodeKind { kInt4, kInt8, kFp8, kFp4 };
constexpr bool is_4_bit(CodeKind kind) { return kind == CodeKind::kInt4 || kind == CodeKind::kFp4; }
constexpr int code_bits(CodeKind kind) { return is_4_bit(kind) ? 4 : 8; }
// Returns whether codes are multiplied by their scales when they are decoded; otherwise the sums of
// groups are.
constexpr bool scales_codes(CodeKind kind) { return kind == CodeKind::kFp4; }

// The 32 codes of a tile that a lane holds, in the order of products.
template <CodeKind kCode>
struct TileCodes {
  static constexpr int kWordsPerProduct = is_4_bit(kCode) ? 1 : 2;
  uint32_t words[4 * kWordsPerProduct];
};

// Loads them, given the address of the lane's first 16 bytes of a tile of 16 outputs x 64 inputs.
template <CodeKind kCode>
QUIRE_DEVICE TileCodes<kCode> load_codes(const uint8_t* lane_codes) {
  TileCodes<kCode> codes;
#pragma unroll
  for (int i = 0; i < TileCodes<kCode>::kWordsPerProduct; ++i) {
    const auto part = *reinterpret_cast<const Elements<4, uint32_t>*>(lane_codes + i * 512);
#pragma unroll
    for (int j = 0; j < 4; ++j) codes.words[i * 4 + j] = part.at[j];
  }
  return codes;
}

// What decode_product() subtracts from the codes of a lane's two outputs of a tile, or multiplies
// FP4 codes by, in the form that it needs.
struct TileZeros {
  uint32_t at[2];
};
template <CodeKind kCode>
QUIRE_DEVICE TileZeros tile_zeros(int32_t low, int32_t high) {
  const auto prepared = [](int32_t zero) -> uint32_t {
    if constexpr (kCode == CodeKind::kInt8)
      return ptx::float_to_bits(-8388608.0f - static_cast<float>(zero));
    return static_cast<uint32_t>(zero) * 0x10001u | 0xc300c300u;  // -128 - zero, twice
  };
  return {{prepared(low), prepared(high)}};
}

// Converts the bytes stored with FP4 codes (quant_weight.h) to powers of two as bf16, each twice.
QUIRE_DEVICE TileZeros tile_powers(uint32_t low, uint32_t high) {
  return {{low * 0x00800080u, high * 0x00800080u}};
}

// Converts a word of four bytes to a pair of bf16: bytes 0 and 2 (kOdd false), or 1 and 3.
template <bool kOdd>
QUIRE_DEVICE uint32_t decode_fp8(uint32_t word) {
  // With exponent and mantissa moved into place, the bf16 is 2^-120 times the value.
  const uint32_t sign = (kOdd ? word : word << 8) & 0x80008000u;
  const uint32_t raw = ptx::and_or(kOdd ? word >> 4 : word << 4, 0x07f007f0u, sign);
  return ptx::multiply_add_bf16x2(raw, 0x7b807b80u, 0x80008000u);
}
template <bool kOdd>
QUIRE_DEVICE uint32_t decode_int8(uint32_t word, uint32_t zero) {
  // With the byte as the lowest bits of 2^23, the float is 2^23 + byte. The difference has 8
  // significant bits.
  const auto value = [&](uint32_t select) {
    const float raised = ptx::bits_to_float(ptx::permute_bytes(word, 0x4b000000u, select));
    return ptx::float_to_bits(ptx::add(raised, ptx::bits_to_float(zero)));
  };
  return ptx::permute_bytes(value(kOdd ? 0x7441u : 0x7440u), value(kOdd ? 0x7443u : 0x7442u),
                            0x7632u);
}

// Makes the registers of the A operand of product `j`: code minus zero as bf16, or 2^-64 times the
// value of an FP4 code. Both are exact.
template <CodeKind kCode>
QUIRE_DEVICE void decode_product(const TileCodes<kCode>& codes, const TileZeros& zeros, int j,
                                 uint32_t (&a)[4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    if constexpr (kCode == CodeKind::kInt4) {
      // Subtracts 128 + zero from 128 + code, whose bits are these.
      const uint32_t raw = ptx::and_or(codes.words[j] >> (4 * r), 0x000f000fu, 0x43004300u);
      a[r] = ptx::multiply_add_bf16x2(raw, 0x3f803f80u, zeros.at[r % 2]);
    } else if constexpr (kCode == CodeKind::kFp4) {
      // With exponent and mantissa moved into place, the bf16 is 2^-126 times the value.
      const uint32_t word = codes.words[j];
      const uint32_t size = r < 2 ? word << (6 - 4 * r) : word >> (4 * r - 6);
      const uint32_t raw = ptx::and_or(size, 0x01c001c0u, word << (12 - 4 * r) & 0x80008000u);
      a[r] = ptx::multiply_add_bf16x2(raw, zeros.at[r % 2], 0x80008000u);
    } else {
      const uint32_t word = codes.words[2 * j + r / 2];
      if constexpr (kCode == CodeKind::kFp8) {
        a[r] = r % 2 == 0 ? decode_fp8<false>(word) : decode_fp8<true>(word);
      } else {
        const uint32_t zero = zeros.at[r % 2];
        a[r] = r % 2 == 0 ? decode_int8<false>(word, zero) : decode_int8<true>(word, zero);
      }
    }
  }
}

}  // namespace quire::cuda
