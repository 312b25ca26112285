// Activation functions, shared by the kernel that applies them and by products that end with one,
// so that both compute the same bits.
#pragma once

#include <cmath>

#include "kernels/api/activation.h"
#include "kernels/cuda/device_code.h"

namespace quire::cuda {

QUIRE_DEVICE float activate(Activation kind, float x) {
  switch (kind) {
    case Activation::kSilu:
      return ptx::divide(x, ptx::add(1.0f, expf(-x)));
    case Activation::kGeluTanh: {
      const float cube = ptx::multiply(ptx::multiply(ptx::multiply(0.044715f, x), x), x);
      const float inner = tanhf(ptx::multiply(0.7978845608f, ptx::add(x, cube)));
      return ptx::multiply(ptx::multiply(0.5f, x), ptx::add(1.0f, inner));
    }
    case Activation::kGeluErf:
      return 0.5f * x * erfcf(-0.7071067812f * x);
    case Activation::kRelu:
      return x > 0.0f ? x : 0.0f;
    case Activation::kRelu2:
      return x > 0.0f ? x * x : 0.0f;
    case Activation::kQuickGelu:
      return x / (1.0f + expf(-1.702f * x));
    case Activation::kTanh:
      return tanhf(x);
    case Activation::kXielu:  // apply_xielu()
      break;
  }
  return x;
}

// The factors that ActivationParams::xielu holds.
struct XieluFactors {
  float above = 0.0f;
  float below = 0.0f;
};
QUIRE_DEVICE XieluFactors xielu_factors(const float* xielu) {
  const auto softplus = [](float x) { return x > 20.0f ? x : log1pf(expf(x)); };
  return {softplus(xielu[0]), ptx::add(0.5f, softplus(xielu[1]))};
}
QUIRE_DEVICE float apply_xielu(const XieluFactors& factors, float x) {
  const float curve = x > 0.0f ? ptx::multiply(ptx::multiply(factors.above, x), x)
                               : ptx::multiply(factors.below, ptx::add(expm1f(x), -x));
  return ptx::multiply_add(0.5f, x, curve);
}

// Returns whether products may end with this activation; these two are used by the gated layers of
// most models.
constexpr bool is_fused_activation(Activation kind) {
  return kind == Activation::kSilu || kind == Activation::kGeluTanh;
}

}  // namespace quire::cuda
