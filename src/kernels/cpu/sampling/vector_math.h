// The exponential of single values. row_kernels-inl.h has the same function over vectors.
#pragma once

#include <bit>
#include <cstdint>

namespace quire {

// Returns e^x for x <= 0, with a relative error below 2e-7; 0 below -87 and for -infinity.
inline float exp_nonpositive(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < -87.0f ? -87.0f : x;
  const float n = (clamped * kLog2E + kRound) - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;  // |r| <= ln2 / 2
  float p = 1.0f / 5040;                                   // Taylor series of e^r to r^7
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float result = p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : result;
}

}  // namespace quire
