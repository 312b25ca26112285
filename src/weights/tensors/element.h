// These read single elements of float tensors as they lie in files: unaligned, converted. They are
// for vectors and tables; matrices go through the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace quire {

inline float read_element(const std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF16: {
      float16 half;
      std::memcpy(&half, data + index * 2, 2);
      return to_float(half);
    }
    case DType::kBF16: {
      bfloat16 half;
      std::memcpy(&half, data + index * 2, 2);
      return to_float(half);
    }
    default: {
      float value;
      std::memcpy(&value, data + index * 4, 4);
      return value;
    }
  }
}

inline void write_element(void* data, DType dtype, int64_t index, float value) {
  auto* out = static_cast<std::byte*>(data) + index * size_bytes(dtype);
  if (dtype == DType::kF16) {
    const float16 half = to_float16(value);
    std::memcpy(out, &half, 2);
  } else if (dtype == DType::kBF16) {
    const bfloat16 half = to_bfloat16(value);
    std::memcpy(out, &half, 2);
  } else {
    std::memcpy(out, &value, 4);
  }
}

}  // namespace quire
