#include <cmath>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

double activate(Activation kind, double x) {
  switch (kind) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kRelu:
      return x > 0.0 ? x : 0.0;
    case Activation::kRelu2:
      return x > 0.0 ? x * x : 0.0;
    case Activation::kQuickGelu:
      return x / (1.0 + std::exp(-1.702 * x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kXielu:
      break;
  }
  return x;
}

double xielu(const float* parameters, double x) {
  const double above = std::log1p(std::exp(double{parameters[0]}));
  const double below = 0.5 + std::log1p(std::exp(double{parameters[1]}));
  return (x > 0.0 ? above * x * x : below * (std::expm1(x) - x)) + 0.5 * x;
}

}  // namespace

void rms_norm(const RmsNormParams& p) {
  const int64_t e = p.hidden_size;
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    const float* x = p.x + (p.rows != nullptr ? p.rows[t] : t) * e;
    double squares = 0.0;
    for (int64_t i = 0; i < e; ++i) squares += double{x[i]} * x[i];
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(e) + p.eps);
    for (int64_t i = 0; i < e; ++i) {
      const double y = x[i] * scale * p.weight[i];
      if (p.add_to != nullptr) {
        p.add_to[t * e + i] = static_cast<float>(p.add_to[t * e + i] + y);
      } else {
        p.out[t * e + i] = static_cast<float>(y);
      }
    }
  }
}

void layer_norm(const LayerNormParams& p) {
  const int64_t e = p.hidden_size;
  const auto count = static_cast<double>(e);
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    const float* x = p.x + (p.rows != nullptr ? p.rows[t] : t) * e;
    double mean = 0.0;
    for (int64_t i = 0; i < e; ++i) mean += x[i] / count;
    double variance = 0.0;
    for (int64_t i = 0; i < e; ++i) variance += (x[i] - mean) * (x[i] - mean) / count;
    const double scale = 1.0 / std::sqrt(variance + p.eps);
    for (int64_t i = 0; i < e; ++i) {
      const double bias = p.bias != nullptr ? p.bias[i] : 0.0;
      p.out[t * e + i] = static_cast<float>((x[i] - mean) * scale * p.weight[i] + bias);
    }
  }
}

void activation(const ActivationParams& p) {
  const int64_t f = p.ffn_size;
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    const float* x = p.x + t * (p.gated ? 2 * f : f);
    for (int64_t i = 0; i < f; ++i) {
      if (p.activation == Activation::kXielu) {
        p.out[t * f + i] = static_cast<float>(xielu(p.xielu, x[i]));
        continue;
      }
      const double gate = p.gated ? x[f + i] : 1.0;
      p.out[t * f + i] = static_cast<float>(activate(p.activation, x[i]) * gate);
    }
  }
}

void soft_cap(const SoftCapParams& p) {
  for (int64_t i = 0; i < p.count; ++i) {
    p.x[i] = static_cast<float>(p.cap * std::tanh(double{p.x[i]} / p.cap));
  }
}

void embedding(const EmbeddingParams& p) {
  const int64_t e = p.hidden_size;
  for (int64_t t = 0; t < p.num_tokens; ++t) {
    for (int64_t i = 0; i < e; ++i) {
      const int64_t row = p.num_rows > 0 && p.token_ids[t] >= p.num_rows ? 0 : p.token_ids[t];
      double y = double{p.scale} * load_element(p.table, p.table_dtype, row * e + i);
      if (p.position_table != nullptr) {
        y += load_element(p.position_table, p.table_dtype, p.positions[t] * e + i);
      }
      if (p.type_table != nullptr)
        y += load_element(p.type_table, p.table_dtype, p.token_types[t] * e + i);
      p.out[t * e + i] = static_cast<float>(y);
    }
  }
}

}  // namespace quire::ref
