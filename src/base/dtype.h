// DType: the element types of tensors. The two 16-bit floats are for storage only: arithmetic is
// done in float.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace quire {

enum class DType : uint8_t { kF32, kF16, kBF16, kI32, kI64, kU8, kI8, kF8E4M3, kF8E5M2 };

// Returns the bytes of one element.
constexpr int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kU8:
    case DType::kI8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return 1;
  }
  return 0;
}

// Returns "float32", "bfloat16" …, the names in config.json and of --dtype.
std::string_view to_string(DType dtype);

struct bfloat16 {
  uint16_t bits = 0;
};
struct float16 {
  uint16_t bits = 0;
};

inline float to_float(bfloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

// Rounds to nearest even; NaN stays a quiet NaN.
inline bfloat16 to_bfloat16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

float to_float(float16 x);
// Rounds to nearest even, with overflow to infinity.
float16 to_float16(float x);

}  // namespace quire
