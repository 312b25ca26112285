// The two 8-bit floats of the OCP specification (June 2023) are storage only.
//
//         sign, exponent, mantissa   largest   smallest normal, subnormal   infinity     NaN
//   e4m3       1, 4, 3                 448       2^-6,  2^-9                none         0x7f, 0xff
//   e5m2       1, 5, 2               57344       2^-14, 2^-16            0x7c, 0xfc   0x7d - 0x7f …
#pragma once

#include <cstdint>

namespace quire {

enum class Float8 : uint8_t { kE4M3, kE5M2 };

// What a number beyond the largest one becomes.
enum class Float8Overflow : uint8_t {
  // The largest number of the same sign, for infinities too; for activations and KV caches.
  kSaturate,
  kSpecial,  // as frameworks convert: NaN in e4m3 (which has no infinity), infinity in e5m2
};

constexpr float largest(Float8 format) { return format == Float8::kE4M3 ? 448.0f : 57344.0f; }

float float8_to_float(Float8 format, uint8_t code);

// Rounds to nearest even directly from float. NaN becomes 0x7f with the sign of x.
uint8_t float_to_float8(Float8 format, float x,
                        Float8Overflow overflow = Float8Overflow::kSaturate);

}  // namespace quire
