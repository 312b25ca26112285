#include "quantize/rounding.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

constexpr float kE4m3Largest = 448.0f;

}  // namespace

uint8_t to_e4m3(float x) {
  if (std::isnan(x)) return 0x7f;
  const auto sign = static_cast<uint8_t>(std::signbit(x) ? 0x80 : 0);
  const float size = std::min(std::fabs(x), kE4m3Largest);
  if (size == 0.0f) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);  // size in [2^(exponent - 1), 2^exponent)
  // Steps are 2^-3 of the power of two below; subnormals below 2^-6 keep the step 2^-9.
  const int step = std::max(exponent - 1, -6) - 3;
  const float steps = std::nearbyint(std::ldexp(size, -step));
  // `steps` counts the codes from the start of this binade, which begins 8 steps up.
  const int code = static_cast<int>(steps) + (step + 9) * 8;
  return static_cast<uint8_t>(sign | code);
}

float from_e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -size : size;
}

float rounded_to(float x, DType dtype) {
  if (dtype == DType::kF16) return to_float(to_float16(x));
  if (dtype == DType::kBF16) return to_float(to_bfloat16(x));
  return x;
}

float largest_magnitude(std::span<const float> values) {
  float largest = 0.0f;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

float round_to_int8(std::span<const float> row, std::span<int8_t> codes) {
  const float largest = largest_magnitude(row);
  const float scale = largest > 0.0f ? largest / 127.0f : 1.0f;
  for (size_t i = 0; i < row.size(); ++i) {
    codes[i] = static_cast<int8_t>(std::clamp(std::nearbyint(row[i] / scale), -127.0f, 127.0f));
  }
  return scale;
}

void round_to_groups(std::span<const float> row, int bits, int64_t group_size, DType scale_type,
                     std::span<uint8_t> codes, std::span<float> scales) {
  const float middle = std::ldexp(1.0f, bits - 1);
  const auto size = static_cast<size_t>(group_size);
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto group = row.subspan(g * size, std::min(size, row.size() - g * size));
    // -middle is a code and +middle is not: with this scale, both ends lose half a step.
    float scale = rounded_to(largest_magnitude(group) / (middle - 0.5f), scale_type);
    if (scale == 0.0f) scale = 1.0f;
    scales[g] = scale;
    for (size_t i = 0; i < group.size(); ++i) {
      const float code = std::clamp(std::nearbyint(group[i] / scale), -middle, middle - 1.0f);
      codes[g * size + i] = static_cast<uint8_t>(code + middle);
    }
  }
}

void pack_words(std::span<const uint8_t> codes, int bits, std::span<uint32_t> words) {
  std::fill(words.begin(), words.end(), 0u);
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t bit = i * static_cast<size_t>(bits);
    const uint64_t wide = uint64_t{codes[i]} << (bit % 32);
    words[bit / 32] |= static_cast<uint32_t>(wide);
    if (wide >> 32 != 0) words[bit / 32 + 1] |= static_cast<uint32_t>(wide >> 32);
  }
}

void round_to_e4m3(std::span<const float> row, float scale, std::span<uint8_t> codes) {
  for (size_t i = 0; i < row.size(); ++i) codes[i] = to_e4m3(row[i] / scale);
}

}  // namespace quire
