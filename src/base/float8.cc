#include "base/float8.h"

#include <bit>
#include <cmath>

namespace quire {
namespace {

struct Shape {
  int mantissa_bits;
  int bias;
  uint32_t largest;  // the code of the largest number
  uint32_t beyond;   // the code that overflow becomes without saturation
};
constexpr Shape shape_of(Float8 format) {
  return format == Float8::kE4M3 ? Shape{3, 7, 0x7e, 0x7f} : Shape{2, 15, 0x7b, 0x7c};
}

// Rounds |x| to a code, which may lie beyond the largest number.
uint32_t round_magnitude(const Shape& shape, float magnitude) {
  const auto bits = std::bit_cast<uint32_t>(magnitude);
  const int dropped = 23 - shape.mantissa_bits;
  const uint32_t smallest_normal = static_cast<uint32_t>(127 - shape.bias + 1) << 23;
  if (bits < smallest_normal) {  // multiples of the smallest subnormal, to nearest even
    const float unit = std::ldexp(1.0f, 1 - shape.bias - shape.mantissa_bits);
    return static_cast<uint32_t>(std::nearbyint(magnitude / unit));
  }
  const uint32_t half = (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1u);
  const uint32_t rebias = static_cast<uint32_t>(127 - shape.bias) << shape.mantissa_bits;
  return ((bits + half) >> dropped) - rebias;
}

}  // namespace

float float8_to_float(Float8 format, uint8_t code) {
  const Shape shape = shape_of(format);
  const uint32_t magnitude = code & 0x7fu;
  const uint32_t mantissa = magnitude & ((1u << shape.mantissa_bits) - 1);
  const uint32_t exponent = magnitude >> shape.mantissa_bits;
  float value = 0.0f;
  if (magnitude > shape.largest) {
    const bool infinite = format == Float8::kE5M2 && mantissa == 0;
    value = std::bit_cast<float>(infinite ? 0x7f800000u : 0x7fc00000u);
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - shape.bias - shape.mantissa_bits);
  } else {
    const auto rebias = static_cast<uint32_t>(127 - shape.bias);
    value =
        std::bit_cast<float>((exponent + rebias) << 23 | mantissa << (23 - shape.mantissa_bits));
  }
  return (code & 0x80u) != 0 ? -value : value;
}

uint8_t float_to_float8(Float8 format, float x, Float8Overflow overflow) {
  const Shape shape = shape_of(format);
  const uint32_t sign = std::bit_cast<uint32_t>(x) >> 24 & 0x80u;
  if (std::isnan(x)) return static_cast<uint8_t>(sign | 0x7fu);
  uint32_t code = round_magnitude(shape, std::fabs(x));
  if (code > shape.largest) {
    code = overflow == Float8Overflow::kSaturate ? shape.largest : shape.beyond;
  }
  return static_cast<uint8_t>(sign | code);
}

}  // namespace quire
