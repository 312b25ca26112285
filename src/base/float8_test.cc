#include "base/float8.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "base/dtype.h"

namespace quire {
namespace {

constexpr std::array kFormats = {Float8::kE4M3, Float8::kE5M2};

// Decodes by the definition of the format, in double.
double decode(Float8 format, int code) {
  const bool e4m3 = format == Float8::kE4M3;
  const int mantissa_bits = e4m3 ? 3 : 2;
  const int bias = e4m3 ? 7 : 15;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const double sign = (code & 0x80) != 0 ? -1.0 : 1.0;
  if (e4m3 && (code & 0x7f) == 0x7f) return NAN;
  if (!e4m3 && exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  const double fraction = mantissa / std::exp2(mantissa_bits) + (exponent == 0 ? 0.0 : 1.0);
  return sign * fraction * std::exp2((exponent == 0 ? 1 : exponent) - bias);
}

// Finds the nearest code by bisection over all codes; a tie goes to the even one. Numbers beyond
// the largest are rounded as if the codes continued.
int encode(Float8 format, float x, Float8Overflow overflow) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return sign | 0x7f;
  const int largest_code = format == Float8::kE4M3 ? 0x7e : 0x7b;
  const double magnitude = std::fabs(double{x});
  const double top = decode(format, largest_code);
  const double step = top - decode(format, largest_code - 1);
  // The code after the largest is odd in e4m3 (0x7f) and even in e5m2 (0x7c): that decides the tie.
  const double limit = top + step / 2;
  const bool beyond = format == Float8::kE4M3 ? magnitude > limit : magnitude >= limit;
  if (beyond) {
    if (overflow == Float8Overflow::kSaturate) return sign | largest_code;
    return sign | (format == Float8::kE4M3 ? 0x7f : 0x7c);
  }
  int best = 0;  // the largest code not above the magnitude
  for (int half = 64; half > 0; half /= 2) {
    const int code = best + half;
    if (code <= largest_code && decode(format, code) <= magnitude) best = code;
  }
  if (best < largest_code) {
    const double below = magnitude - decode(format, best);
    const double above = decode(format, best + 1) - magnitude;
    if (above < below || (above == below && best % 2 == 1)) ++best;
  }
  return sign | best;
}

TEST(Float8, AllCodesDecode) {
  for (const Float8 format : kFormats) {
    for (int code = 0; code < 256; ++code) {
      const float got = float8_to_float(format, static_cast<uint8_t>(code));
      const double want = decode(format, code);
      ASSERT_EQ(std::isnan(got), std::isnan(want)) << code;
      if (std::isnan(want)) continue;
      ASSERT_EQ(double{got}, want) << code;
      ASSERT_EQ(std::signbit(got), (code & 0x80) != 0) << code;
      ASSERT_EQ(float_to_float8(format, got, Float8Overflow::kSpecial), code);
    }
  }
}

TEST(Float8, AllSixteenBitFloatsEncode) {
  for (const Float8 format : kFormats) {
    for (const auto overflow : {Float8Overflow::kSaturate, Float8Overflow::kSpecial}) {
      for (int bits = 0; bits < 65536; ++bits) {
        for (const float x : {to_float(bfloat16{static_cast<uint16_t>(bits)}),
                              to_float(float16{static_cast<uint16_t>(bits)})}) {
          ASSERT_EQ(float_to_float8(format, x, overflow), encode(format, x, overflow)) << x;
        }
      }
    }
  }
}

// The floats around every midpoint of two neighbouring codes, where rounding through a 16-bit float
// would be wrong.
TEST(Float8, TiesGoToEvenAndTheirNeighboursDoNot) {
  for (const Float8 format : kFormats) {
    const int largest_code = format == Float8::kE4M3 ? 0x7e : 0x7b;
    for (int code = 0; code < largest_code; ++code) {
      const auto tie = static_cast<float>((decode(format, code) + decode(format, code + 1)) / 2);
      EXPECT_EQ(float_to_float8(format, tie), code + code % 2);
      EXPECT_EQ(float_to_float8(format, std::nextafterf(tie, 0.0f)), code);
      EXPECT_EQ(float_to_float8(format, std::nextafterf(tie, 1e9f)), code + 1);
      EXPECT_EQ(float_to_float8(format, -tie), 0x80 | (code + code % 2));
    }
  }
}

TEST(Float8, BeyondTheLargest) {
  EXPECT_EQ(float_to_float8(Float8::kE4M3, 464.0f, Float8Overflow::kSpecial), 0x7e);
  EXPECT_EQ(float_to_float8(Float8::kE4M3, 464.1f, Float8Overflow::kSpecial), 0x7f);
  EXPECT_EQ(float_to_float8(Float8::kE5M2, 61439.0f, Float8Overflow::kSpecial), 0x7b);
  EXPECT_EQ(float_to_float8(Float8::kE5M2, 61440.0f, Float8Overflow::kSpecial), 0x7c);
  for (const Float8 format : kFormats) {
    EXPECT_EQ(float8_to_float(format, float_to_float8(format, INFINITY)), largest(format));
    EXPECT_EQ(float8_to_float(format, float_to_float8(format, -1e30f)), -largest(format));
    EXPECT_TRUE(std::isnan(float8_to_float(format, float_to_float8(format, NAN))));
  }
}

}  // namespace
}  // namespace quire
