// The ops of states, token by token. A state is stored in its block in the plain order of the
// formulas, which differs from the kernels' own.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Runs step(t, state) over the tokens of every segment, with `size` doubles of state.
template <typename Step>
void for_tokens(const StateSegments& segments, const StateView& view, int64_t size,
                const Step& step) {
  for (int32_t s = 0; s < segments.num_segments; ++s) {
    std::vector<double> state(static_cast<size_t>(size), 0.0);
    const float* in = view.data + segments.state_in[s] * view.block_stride;
    if (segments.state_in[s] != 0) std::copy_n(in, size, state.begin());
    for (int64_t t = segments.start_loc[s]; t < segments.start_loc[s + 1]; ++t)
      step(t, state.data());
    float* out = view.data + segments.state_out[s] * view.block_stride;
    if (segments.state_out[s] == 0) continue;
    for (int64_t i = 0; i < size; ++i) out[i] = static_cast<float>(state[static_cast<size_t>(i)]);
  }
}

}  // namespace

void causal_conv(const CausalConvParams& params) {
  const int64_t channels = params.num_channels;
  const int64_t rows = params.kernel_size - 1;
  for_tokens(params.segments, params.state, rows * channels, [&](int64_t t, double* state) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t i = t * params.x_stride + c;
      const float* weight = params.weight + c * params.kernel_size;
      const double v = double{params.x[i]} * (params.in_gate != nullptr ? params.in_gate[i] : 1.0f);
      double y = params.bias == nullptr ? 0.0 : params.bias[c];
      for (int64_t j = 0; j < rows; ++j) y += weight[j] * state[j * channels + c];
      y += weight[rows] * v;
      for (int64_t j = 0; j < rows; ++j)
        state[j * channels + c] = j + 1 < rows ? state[(j + 1) * channels + c] : v;
      if (params.silu) y *= sigmoid_of(y);
      if (params.out_gate != nullptr) y *= params.out_gate[i];
      params.out[t * params.out_stride + c] = static_cast<float>(y);
    }
  });
}

void selective_scan(const SelectiveScanParams& params) {
  const int64_t channels = params.num_channels;
  const int64_t size = params.num_states;
  for_tokens(params.segments, params.state, channels * size, [&](int64_t t, double* state) {
    const float* b = params.b + t * params.bc_stride;
    const float* c = params.c + t * params.bc_stride;
    for (int64_t i = 0; i < channels; ++i) {
      const double x = params.x[t * params.x_stride + i];
      const double delta = params.delta[t * channels + i];
      double y = params.d[i] * x;
      for (int64_t n = 0; n < size; ++n) {
        double& h = state[i * size + n];
        h = std::exp(delta * params.a[i * size + n]) * h + delta * x * b[n];
        y += c[n] * h;
      }
      params.out[t * channels + i] = static_cast<float>(y);
    }
  });
}

void ssd_scan(const SsdScanParams& params) {
  const int64_t states = params.num_states;
  const int64_t dim = params.head_dim;
  const auto head_floats = params.num_heads * dim * states;
  for_tokens(params.segments, params.state, head_floats, [&](int64_t t, double* state) {
    for (int64_t h = 0; h < params.num_heads; ++h) {
      const int64_t group = h / (params.num_heads / params.num_groups) * states;
      const float* x = params.x + t * params.x_stride + h * dim;
      const float* b = params.b + t * params.x_stride + group;
      const float* c = params.c + t * params.x_stride + group;
      const double delta = params.delta[t * params.num_heads + h];
      const double decay = params.decay[t * params.num_heads + h];
      for (int64_t p = 0; p < dim; ++p) {
        double y = double{params.d[h]} * x[p];
        for (int64_t n = 0; n < states; ++n) {
          double& s = state[(h * dim + p) * states + n];
          s = decay * s + delta * x[p] * b[n];
          y += s * c[n];
        }
        params.out[(t * params.num_heads + h) * dim + p] = static_cast<float>(y);
      }
    }
  });
}

void delta_rule(const DeltaRuleParams& params) {
  const int64_t dk = params.key_dim;
  const int64_t dv = params.value_dim;
  const int64_t heads = params.num_heads;
  for_tokens(params.segments, params.state, heads * dk * dv, [&](int64_t t, double* states) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t key_head =
          params.tiled_heads ? h % params.num_key_heads : h / (heads / params.num_key_heads);
      const float* q = params.q + t * params.qkv_stride + key_head * dk;
      const float* k = params.k + t * params.qkv_stride + key_head * dk;
      const float* v = params.v + t * params.qkv_stride + h * dv;
      double* state = states + h * dk * dv;
      for (int64_t j = 0; j < dv; ++j) {
        double memory = 0.0;
        for (int64_t i = 0; i < dk; ++i) {
          const int64_t at = t * heads + h;
          state[i * dv + j] *=
              params.has_channel_decay ? params.decay[at * dk + i] : params.decay[at];
          memory += state[i * dv + j] * k[i];
        }
        const double u = params.beta[t * heads + h] * (v[j] - memory);
        double y = 0.0;
        for (int64_t i = 0; i < dk; ++i) {
          state[i * dv + j] += k[i] * u;
          y += state[i * dv + j] * q[i];
        }
        params.out[(t * heads + h) * dv + j] = static_cast<float>(y);
      }
    }
  });
}

void step_gates(const StepGatesParams& params) {
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    for (int64_t i = 0; i < params.size; ++i) {
      const double x = double{params.x[t * params.x_stride + i]} +
                       (params.bias != nullptr ? params.bias[i] : 0.0f);
      const double delta = std::clamp(std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0),
                                      double{params.min_delta}, double{params.max_delta});
      const int64_t at = t * params.size + i;
      if (params.delta != nullptr) params.delta[at] = static_cast<float>(delta);
      if (params.decay != nullptr)
        params.decay[at] = static_cast<float>(std::exp(params.a[i / params.repeat] * delta));
    }
  }
}

void sigmoid(const SigmoidParams& params) {
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    for (int64_t i = 0; i < params.size; ++i)
      params.out[t * params.size + i] =
          static_cast<float>(sigmoid_of(params.x[t * params.x_stride + i]));
  }
}

void gated_norm(const GatedNormParams& params) {
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    for (int64_t first = 0; first < params.size; first += params.group_size) {
      float* x = params.x + t * params.x_stride + first;
      std::vector<double> act(static_cast<size_t>(params.group_size), 1.0);
      double sum = 0.0;
      for (int64_t i = 0; i < params.group_size; ++i) {
        double& one = act[static_cast<size_t>(i)];
        if (params.act != Gate::kNone) {
          const double gate = params.gate[t * params.gate_stride + first + i];
          one = sigmoid_of(gate) * (params.act == Gate::kSilu ? gate : 1.0);
        }
        const double value = x[i] * (params.gate_first ? one : 1.0);
        sum += value * value;
      }
      const double norm = std::sqrt(sum / static_cast<double>(params.group_size) + params.eps);
      for (int64_t i = 0; i < params.group_size; ++i) {
        double weight = params.scale / (params.normalizes ? norm : 1.0);
        if (params.scale_factor != nullptr) weight *= *params.scale_factor;
        if (params.weight != nullptr) weight *= params.weight[params.shared_weight ? i : first + i];
        x[i] = static_cast<float>(x[i] * act[static_cast<size_t>(i)] * weight);
      }
    }
  }
}

}  // namespace quire::ref
