// Converts numbers to the codes of a quantized KV cache. fp8 codes are those of the saturating
// conversion in base/float8.h; here there are no branches, so that compilers vectorize it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/dtype.h"

namespace quire::cpu {

// Returns the code in a format with this mantissa and bias. Numbers beyond `largest` become
// `largest`.
template <int kMantissa, int kBias>
inline uint8_t encode_float8(float x, float largest) {
  constexpr int kDropped = 23 - kMantissa;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
  // Adding this leaves |x| as a multiple of the smallest subnormal in the low bits, rounded to
  // nearest even.
  const float magic =
      std::bit_cast<float>(static_cast<uint32_t>(127 + 24 - kBias - kMantissa) << 23);
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t all = bits & 0x7fffffffu;
  const uint32_t magnitude = std::min(all, std::bit_cast<uint32_t>(largest));
  const uint32_t half = (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1u);
  const uint32_t normal =
      ((magnitude + half) >> kDropped) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + magic) -
                             std::bit_cast<uint32_t>(magic);
  const uint32_t code = magnitude < kSmallestNormal ? subnormal : normal;
  return static_cast<uint8_t>((bits >> 24 & 0x80u) | (all > 0x7f800000u ? 0x7fu : code));
}

// Sets codes[i] to x[i] / scale as fp8.
inline void encode_float8_row(DType dtype, const float* x, int64_t n, float scale, uint8_t* codes) {
  if (dtype == DType::kF8E4M3) {
    for (int64_t i = 0; i < n; ++i) codes[i] = encode_float8<3, 7>(x[i] / scale, 448.0f);
  } else {
    for (int64_t i = 0; i < n; ++i) codes[i] = encode_float8<2, 15>(x[i] / scale, 57344.0f);
  }
}

// Sets codes[i] to x[i] / scale as int8, and returns the scale: the smallest bf16 with which all
// |codes| <= 127. A row with infinities or NaN gets a scale that is not finite and decodes to NaN.
inline bfloat16 encode_int8_row(const float* x, int64_t n, int8_t* codes) {
  uint32_t largest_bits = 0;  // compared as integers, so that NaN is the largest
  for (int64_t i = 0; i < n; ++i) {
    largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  const float wanted = std::bit_cast<float>(largest_bits) / 127.0f;
  bfloat16 scale = to_bfloat16(wanted);
  if (to_float(scale) < wanted) ++scale.bits;
  // All codes are 0 if the scale is 0 (all elements are 0 or nearly) or not finite.
  const bool usable = std::isfinite(to_float(scale)) && to_float(scale) > 0.0f;
  const float divisor = usable ? to_float(scale) : std::numeric_limits<float>::infinity();
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23 leaves the nearest integer in the low bits
  for (int64_t i = 0; i < n; ++i) {
    const float quotient = x[i] / divisor;
    const float shifted = (quotient == quotient ? quotient : 0.0f) + kMagic;
    codes[i] =
        static_cast<int8_t>(std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kMagic));
  }
  return scale;
}

}  // namespace quire::cpu
