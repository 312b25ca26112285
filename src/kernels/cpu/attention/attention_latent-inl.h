// The values of a latent cache are the first dims of its keys. These functions transpose the keys
// of a tile, which are stored by dim as scores need them, to the order by position that the
// weighted sum needs.
#pragma once

#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// Transposes 16 dims of 16 positions. Strides are elements between rows.
[[maybe_unused]] static void turn_keys(const float* keys, int64_t key_stride, float* values,
                                       int64_t value_stride) {
  for (int64_t position = 0; position < 16; ++position) {
    for (int64_t d = 0; d < 16; ++d) {
      values[position * value_stride + d] = keys[d * key_stride + position];
    }
  }
}

// Does the same from pairs of dims to pairs of positions.
#ifdef __AVX512BW__
[[maybe_unused]] static void turn_keys(const uint16_t* keys, int64_t key_stride, uint16_t* values,
                                       int64_t value_stride) {
  // For dims (a, b) and positions (0, 1): a0 b0 a1 b1 becomes a0 a1 b0 b1, 64 bits that the steps
  // below move as one.
  const __m512i order = _mm512_set4_epi32(0x0f0e0b0a, 0x0d0c0908, 0x07060302, 0x05040100);
  __m512i even[4], odd[4];  // pairs of positions; each 128 bits hold those of four dims
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const uint16_t* row = keys + 2 * i * key_stride;
    const __m512i a = _mm512_shuffle_epi8(_mm512_loadu_si512(row), order);
    const __m512i b = _mm512_shuffle_epi8(_mm512_loadu_si512(row + key_stride), order);
    even[i] = _mm512_unpacklo_epi64(a, b);
    odd[i] = _mm512_unpackhi_epi64(a, b);
  }
#pragma GCC unroll 2
  for (int side = 0; side < 2; ++side) {
    const __m512i* in = side == 0 ? even : odd;
    uint16_t* to = values + side * value_stride;
    const __m512i low01 = _mm512_shuffle_i64x2(in[0], in[1], 0x88);
    const __m512i low23 = _mm512_shuffle_i64x2(in[2], in[3], 0x88);
    const __m512i high01 = _mm512_shuffle_i64x2(in[0], in[1], 0xdd);
    const __m512i high23 = _mm512_shuffle_i64x2(in[2], in[3], 0xdd);
    _mm512_storeu_si512(to, _mm512_shuffle_i64x2(low01, low23, 0x88));
    _mm512_storeu_si512(to + 2 * value_stride, _mm512_shuffle_i64x2(high01, high23, 0x88));
    _mm512_storeu_si512(to + 4 * value_stride, _mm512_shuffle_i64x2(low01, low23, 0xdd));
    _mm512_storeu_si512(to + 6 * value_stride, _mm512_shuffle_i64x2(high01, high23, 0xdd));
  }
}
#else
[[maybe_unused]] static void turn_keys(const uint16_t* keys, int64_t key_stride, uint16_t* values,
                                       int64_t value_stride) {
  for (int64_t pair = 0; pair < 8; ++pair) {  // of positions
    for (int64_t d = 0; d < 16; d += 2) {
      uint32_t first, second;  // dims d and d + 1 of each position
      const uint16_t* from = keys + d / 2 * key_stride + pair * 4;
      __builtin_memcpy(&first, from, sizeof first);
      __builtin_memcpy(&second, from + 2, sizeof second);
      const uint32_t turned[2] = {(first & 0xffffu) | second << 16,
                                  first >> 16 | (second & 0xffff0000u)};
      __builtin_memcpy(values + pair * value_stride + d * 2, turned, sizeof turned);
    }
  }
}
#endif

}  // namespace
}  // namespace quire
