#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

float e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const float fraction = static_cast<float>(code & 7) / 8.0f;
  const float magnitude =
      exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1.0f + fraction, exponent - 7);
  return code >= 0x80 ? -magnitude : magnitude;
}

float code_value(const QuantSpec& spec, uint8_t code) {
  static constexpr int kIq4Nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
  static constexpr int kIq1[16] = {-9, -1, 7, -7, 1, 9};
  static constexpr int kIq2[8] = {8, 25, 43};
  static constexpr int kIq3Xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
  const int sign = code >= 8 ? -1 : 1;
  static constexpr float kE2M1[16] = {0.0f,  0.5f,  1,  1.5f,  2,  3,  4,  6,
                                      -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  switch (spec.codebook) {
    case Codebook::kLinear:
      return static_cast<float>(code) - static_cast<float>(spec.offset);
    case Codebook::kIq4Nl:
      return static_cast<float>(kIq4Nl[code]);
    case Codebook::kIq1:
      return static_cast<float>(kIq1[code]);
    case Codebook::kIq2:
      return static_cast<float>(sign * kIq2[code % 8]);
    case Codebook::kIq3Xxs:
      return static_cast<float>(sign * kIq3Xxs[code % 8]);
    case Codebook::kIq3S:
      return static_cast<float>(sign * (2 * (code % 8) + 1));
    case Codebook::kE2M1:
      return kE2M1[code];
    case Codebook::kE4M3:
      return e4m3(code);
  }
  return 0.0f;
}

float stored(ScaleType type, const void* array, int64_t i) {
  const auto* bytes = static_cast<const uint8_t*>(array);
  switch (type) {
    case ScaleType::kF32: {
      float x;
      std::memcpy(&x, bytes + 4 * i, sizeof x);
      return x;
    }
    case ScaleType::kF16:
    case ScaleType::kBF16: {
      uint16_t bits;
      std::memcpy(&bits, bytes + 2 * i, sizeof bits);
      return type == ScaleType::kF16 ? to_float(float16{bits}) : to_float(bfloat16{bits});
    }
    case ScaleType::kE8M0:
      return static_cast<float>(std::exp2(bytes[i] - 127.0));
    case ScaleType::kI8:
      return static_cast<float>(bytes[i] < 128 ? bytes[i] : bytes[i] - 256);
    case ScaleType::kE4M3:
      return e4m3(bytes[i]);
    case ScaleType::kU4:
    case ScaleType::kU8:
      return static_cast<float>(bytes[i]);
    case ScaleType::kNone:
      break;
  }
  return 1.0f;
}

}  // namespace

void dequantize(const WeightSpec& spec, const QuantRows& rows, float* out) {
  const QuantSpec& quant = spec.quant;
  const int64_t groups = quant.num_groups(spec.k);
  const int64_t supers = quant.num_super_groups(spec.k);
  const ScaleType min_type = quant.scale_type == ScaleType::kI8 ? ScaleType::kU8 : quant.scale_type;
  for (int64_t i = 0; i < rows.num_rows * spec.k; ++i) {
    const int64_t row = i / spec.k, k = i % spec.k;
    const int64_t g = row * groups + std::min(k / quant.group_size, groups - 1);
    const int64_t s =
        supers == 0 ? 0 : row * supers + std::min(k / quant.super_group_size, supers - 1);
    float scale = stored(quant.scale_type, rows.scales, g);
    if (supers > 0) scale *= stored(quant.super_scale_type, rows.super_scales, s);
    const float c = code_value(quant, rows.codes[i]);
    switch (quant.zero_kind) {
      case ZeroKind::kNone:
        out[i] = scale * c;
        break;
      case ZeroKind::kInteger:
        out[i] = scale * (c - static_cast<float>(rows.zeros[g]));
        break;
      case ZeroKind::kMin: {
        float min = stored(min_type, rows.mins, g);
        if (supers > 0) min *= stored(quant.super_scale_type, rows.super_mins, s);
        const float product = scale * c;
        out[i] = product - min;
        break;
      }
    }
  }
}

}  // namespace quire::ref
