#include <cmath>

#include "base/check.h"
#include "base/float8.h"
#include "kernels/ref/ref.h"

namespace quire::ref {

float load_element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kBF16:
      return to_float(static_cast<const bfloat16*>(data)[i]);
    case DType::kF16:
      return to_float(static_cast<const float16*>(data)[i]);
    case DType::kF8E4M3:
      return float8_to_float(Float8::kE4M3, static_cast<const uint8_t*>(data)[i]);
    case DType::kF8E5M2:
      return float8_to_float(Float8::kE5M2, static_cast<const uint8_t*>(data)[i]);
    case DType::kI8:
      return static_cast<const int8_t*>(data)[i];
    default:
      QUIRE_CHECK(false, "expected a float type or int8, got {}", to_string(dtype));
  }
  return 0.0f;
}

void store_element(void* data, DType dtype, int64_t i, float value) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(data)[i] = value;
      return;
    case DType::kBF16:
      static_cast<bfloat16*>(data)[i] = to_bfloat16(value);
      return;
    case DType::kF16:
      static_cast<float16*>(data)[i] = to_float16(value);
      return;
    case DType::kF8E4M3:
      static_cast<uint8_t*>(data)[i] = float_to_float8(Float8::kE4M3, value);
      return;
    case DType::kF8E5M2:
      static_cast<uint8_t*>(data)[i] = float_to_float8(Float8::kE5M2, value);
      return;
    case DType::kI8:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(std::nearbyint(value));
      return;
    default:
      QUIRE_CHECK(false, "expected a float type or int8, got {}", to_string(dtype));
  }
}

void linear(const LinearParams& params, const void* dense, DType weight_dtype) {
  const WeightSpec& spec = params.weight->spec;
  for (int64_t m = 0; m < params.num_rows; ++m) {
    for (int64_t n = 0; n < spec.n; ++n) {
      double sum = 0.0;
      for (int64_t k = 0; k < spec.k; ++k) {
        float x = params.x[m * params.x_stride + k];
        if (spec.compute == ComputeType::kBF16) x = to_float(to_bfloat16(x));
        sum += double{x} * load_element(dense, weight_dtype, n * spec.k + k);
      }
      float& y = params.y[m * params.y_stride + n];
      if (params.bias != nullptr) sum += params.bias[n];
      if (params.accumulate) sum += y;
      y = static_cast<float>(sum);
    }
  }
}

}  // namespace quire::ref
