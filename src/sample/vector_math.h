// exp and sums over rows of logits as plain loops that a compiler vectorises, in an order that does
// not depend on the vector width: the same row gives the same bits in every build with IEEE floats
// (law L4).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

// e^x for x <= 0, relative error below 2e-7; 0 below -87 (also for -infinity).
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

inline constexpr size_t kLanes = 16;

// Greatest element; -infinity for an empty row.
inline float max_of(std::span<const float> row) {
  std::array<float, kLanes> lanes;
  lanes.fill(-__builtin_inff());
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];
  }
  for (; i < row.size(); ++i) lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
  float best = lanes[0];
  for (const float lane : lanes) best = lane > best ? lane : best;
  return best;
}

// Sum of f(row[i]): lane j adds elements j, j + 16, … in float; lanes are added in order, in
// double.
template <typename F>
double lane_sum(std::span<const float> row, F f) {
  std::array<float, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += f(row[i + j]);
  }
  for (size_t j = 0; i < row.size(); ++i, ++j) lanes[j] += f(row[i]);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

// Whether every element is neither NaN nor infinite.
inline bool all_finite(std::span<const float> row) {
  uint32_t bad = 0;
  for (const float x : row) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(x) & 0x7f800000u) == 0x7f800000u);
  }
  return bad == 0;
}

}  // namespace quire
