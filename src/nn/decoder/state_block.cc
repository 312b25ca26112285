#include "nn/decoder/state_block.h"

#include <algorithm>
#include <cmath>

#include "device/gpu_range.h"
#include "kernels/api/step_gates.h"
#include "nn/products/linear_product.h"
#include "nn/products/product_inputs.h"

namespace quire {
namespace {

// The floats of each buffer, in the order in which the constructor takes them, with room for the
// widest layer.
struct StateBufferSizes {
  int64_t in = 0, mixed = 0, steps = 0, decay = 0, beta = 0, narrow = 0, read = 0;
  DType activation_type;

  StateBufferSizes(const DecoderSpec& spec, const BlockLimits& limits)
      : activation_type(limits.activation_type) {
    const auto grow = [&](int64_t& size, int64_t width) {
      size = std::max(size, limits.max_tokens * width);
    };
    for (const LayerSpec& layer : spec.layers) {
      const StateSpec& state = layer.state;
      if (!state.any()) continue;
      grow(in, state.in_rows());
      grow(mixed, state.inner_size());
      if (activation_type != DType::kF32) grow(read, std::max(state.inner_size(), state.rank));
      if (state.kind == StateKind::kShortConv) continue;
      const int64_t decays = state.num_heads * (state.has_channel_decay ? state.key_dim : 1);
      grow(steps, decays);
      grow(decay, decays);
      grow(beta, state.num_heads);
      const bool scans = state.kind == StateKind::kSelectiveScan;
      if (scans) grow(narrow, state.rank + 2 * state.key_dim);
      if (state.has_channel_decay) grow(narrow, state.inner_size());
    }
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (const int64_t count : {in, mixed, steps, decay, beta, narrow})
      sum += Arena::padded(count * int64_t{sizeof(float)});
    return sum + Arena::padded(read * size_bytes(activation_type));
  }
};

}  // namespace

struct StateBlock::Step {
  const StateSpec& spec;
  const StateWeights& weights;
  const StateSegments& segments;
  StateView conv;       // of the convolution
  StateView recurrent;  // of the recurrence
  int64_t num_tokens;
  void* linear_workspace;
};

int64_t StateBlock::memory_bytes(const DecoderSpec& spec, const BlockLimits& limits) {
  return StateBufferSizes(spec, limits).bytes();
}

StateBlock::StateBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                       const BlockLimits& limits, Stream& stream, Arena& arena, LoraBatch* lora)
    : spec_(spec), weights_(weights), stream_(stream), lora_(lora) {
  const StateBufferSizes sizes(spec, limits);
  in_ = arena.allocate<float>(sizes.in);
  mixed_ = arena.allocate<float>(sizes.mixed);
  steps_ = arena.allocate<float>(sizes.steps);
  decay_ = arena.allocate<float>(sizes.decay);
  beta_ = arena.allocate<float>(sizes.beta);
  narrow_ = arena.allocate<float>(sizes.narrow);
  read_ = allocate_activations(arena, limits.activation_type, sizes.read);
}

void StateBlock::project(size_t layer, ConstActivations x, int64_t num_tokens,
                         void* linear_workspace) {
  const StateSpec& spec = spec_.layers[layer].state;
  multiply(weights_.layer(layer).state.in, x, spec_.hidden_size, in_, num_tokens, false,
           linear_workspace);
  if (spec.kind != StateKind::kSsd) return;
  const int64_t widths[] = {spec.inner_size(), spec.inner_size(), spec.key_size(), spec.key_size(),
                            spec.num_heads};
  float* part = in_;
  for (size_t i = 0; i < spec.in_scales.size(); part += widths[i], ++i) {
    if (spec.in_scales[i] == 1.0f) continue;
    gated_norm(stream_, {.x = part,
                         .x_stride = spec.in_rows(),
                         .normalizes = false,
                         .scale = spec.in_scales[i],
                         .num_tokens = num_tokens,
                         .size = widths[i],
                         .group_size = widths[i]});
  }
}

void StateBlock::mix(size_t layer, const StateSegments& segments, const StateView& state,
                     int64_t num_tokens, void* linear_workspace) {
  const GpuRange range(stream_, "state", layer);
  const StateSpec& spec = spec_.layers[layer].state;
  const Step step{.spec = spec,
                  .weights = weights_.layer(layer).state,
                  .segments = segments,
                  .conv = state,
                  .recurrent = {state.data + spec.conv_floats(), state.block_stride},
                  .num_tokens = num_tokens,
                  .linear_workspace = linear_workspace};
  switch (spec.kind) {
    case StateKind::kNone:
      break;
    case StateKind::kShortConv:
      return short_conv(step);
    case StateKind::kSelectiveScan:
      return selective_scan(step);
    case StateKind::kSsd:
      return ssd(step);
    case StateKind::kDeltaRule:
      return delta_rule(step);
  }
}

void StateBlock::add_output(size_t layer, float* out, int64_t num_tokens, void* linear_workspace) {
  const StateSpec& spec = spec_.layers[layer].state;
  multiply(weights_.layer(layer).state.out, mixed_, spec.inner_size(), out, num_tokens, true,
           linear_workspace);
}

void StateBlock::short_conv(const Step& step) {
  const int64_t inner = step.spec.inner_size();
  causal_conv(stream_, {.x = in_ + 2 * inner,
                        .in_gate = in_,
                        .out_gate = in_ + inner,
                        .x_stride = step.spec.in_rows(),
                        .weight = step.weights.conv,
                        .bias = step.weights.conv_bias,
                        .out = mixed_,
                        .out_stride = inner,
                        .segments = step.segments,
                        .state = step.conv,
                        .kernel_size = step.spec.conv_kernel,
                        .num_channels = inner});
}

void StateBlock::convolve(const Step& step) {
  float* x = in_ + step.spec.conv_begin();
  causal_conv(stream_, {.x = x,
                        .x_stride = step.spec.in_rows(),
                        .weight = step.weights.conv,
                        .bias = step.weights.conv_bias,
                        .silu = true,
                        .out = x,
                        .out_stride = step.spec.in_rows(),
                        .segments = step.segments,
                        .state = step.conv,
                        .kernel_size = step.spec.conv_kernel,
                        .num_channels = step.spec.conv_channels()});
}

void StateBlock::selective_scan(const Step& step) {
  const StateSpec& spec = step.spec;
  const StateWeights& weights = step.weights;
  const int64_t inner = spec.inner_size();
  const int64_t width = spec.rank + 2 * spec.key_dim;
  convolve(step);
  multiply(weights.x, in_, spec.in_rows(), narrow_, step.num_tokens, false, step.linear_workspace);
  const auto norm = [&](float* part, const float* weight, int64_t size) {
    gated_norm(stream_, {.x = part,
                         .x_stride = width,
                         .weight = weight,
                         .eps = spec.norm_eps,
                         .num_tokens = step.num_tokens,
                         .size = size,
                         .group_size = size});
  };
  if (spec.step_norms != StepNorms::kNone) {
    norm(narrow_, weights.step_norm, spec.rank);
    norm(narrow_ + spec.rank, weights.b_norm, spec.key_dim);
    norm(narrow_ + spec.rank + spec.key_dim, weights.c_norm, spec.key_dim);
  }
  multiply(weights.step, narrow_, width, steps_, step.num_tokens, false, step.linear_workspace);
  step_gates(stream_, {.x = steps_,
                       .x_stride = inner,
                       .bias = weights.step_bias,
                       .min_delta = spec.min_step,
                       .max_delta = spec.max_step,
                       .delta = steps_,
                       .num_tokens = step.num_tokens,
                       .size = inner});
  quire::selective_scan(stream_, {.x = in_,
                                  .x_stride = spec.in_rows(),
                                  .delta = steps_,
                                  .b = narrow_ + spec.rank,
                                  .c = narrow_ + spec.rank + spec.key_dim,
                                  .bc_stride = width,
                                  .a = weights.a,
                                  .d = weights.d,
                                  .out = mixed_,
                                  .segments = step.segments,
                                  .state = step.recurrent,
                                  .num_channels = inner,
                                  .num_states = spec.key_dim});
  finish_output(step, in_ + inner, spec.in_rows());
}

void StateBlock::ssd(const Step& step) {
  const StateSpec& spec = step.spec;
  const float* x = in_ + spec.conv_begin();
  convolve(step);
  step_gates(stream_, {.x = x + spec.conv_channels(),
                       .x_stride = spec.in_rows(),
                       .bias = step.weights.step_bias,
                       .a = step.weights.a,
                       .min_delta = spec.min_step,
                       .max_delta = spec.max_step,
                       .delta = steps_,
                       .decay = decay_,
                       .num_tokens = step.num_tokens,
                       .size = spec.num_heads});
  ssd_scan(stream_, {.x = x,
                     .b = x + spec.inner_size(),
                     .c = x + spec.inner_size() + spec.key_size(),
                     .x_stride = spec.in_rows(),
                     .delta = steps_,
                     .decay = decay_,
                     .d = step.weights.d,
                     .out = mixed_,
                     .segments = step.segments,
                     .state = step.recurrent,
                     .num_heads = spec.num_heads,
                     .num_groups = spec.num_key_heads,
                     .head_dim = spec.value_dim,
                     .num_states = spec.key_dim});
  finish_output(step, in_, spec.in_rows());
}

// Scales queries and keys to length 1, and divides queries by sqrt(Dk). x / sqrt(sum x^2 + eps) is
// an RMSNorm with eps / Dk, divided by sqrt(Dk).
void StateBlock::normalize_keys(const Step& step) {
  constexpr float kEps = 1e-6f;
  const StateSpec& spec = step.spec;
  const auto dim = static_cast<float>(spec.key_dim);
  const float unit = 1.0f / std::sqrt(dim);
  float* part = in_;
  for (const float scale : {unit * unit, unit}) {
    gated_norm(stream_, {.x = part,
                         .x_stride = spec.in_rows(),
                         .scale = scale,
                         .eps = kEps / dim,
                         .num_tokens = step.num_tokens,
                         .size = spec.key_size(),
                         .group_size = spec.key_dim});
    part += spec.key_size();
  }
}

void StateBlock::delta_rule(const Step& step) {
  const StateSpec& spec = step.spec;
  const StateWeights& weights = step.weights;
  convolve(step);
  normalize_keys(step);
  const float* beta = in_ + spec.conv_channels();
  const float* gate = beta + spec.num_heads;
  const float* raw_step = gate + spec.inner_size();
  int64_t gate_stride = spec.in_rows(), step_stride = spec.in_rows();
  if (spec.has_channel_decay) {
    multiply(weights.step, beta + spec.num_heads, spec.in_rows(), steps_, step.num_tokens, false,
             step.linear_workspace);
    multiply(weights.gate, beta + spec.num_heads + spec.rank, spec.in_rows(), narrow_,
             step.num_tokens, false, step.linear_workspace);
    raw_step = steps_;
    gate = narrow_;
    step_stride = spec.num_heads * spec.key_dim;
    gate_stride = spec.inner_size();
  }
  step_gates(stream_, {.x = raw_step,
                       .x_stride = step_stride,
                       .bias = weights.step_bias,
                       .a = weights.a,
                       .repeat = spec.has_channel_decay ? spec.key_dim : 1,
                       .decay = decay_,
                       .num_tokens = step.num_tokens,
                       .size = spec.num_heads * (spec.has_channel_decay ? spec.key_dim : 1)});
  sigmoid(stream_, {.x = beta,
                    .x_stride = spec.in_rows(),
                    .out = beta_,
                    .num_tokens = step.num_tokens,
                    .size = spec.num_heads});
  quire::delta_rule(stream_, {.q = in_,
                              .k = in_ + spec.key_size(),
                              .v = in_ + 2 * spec.key_size(),
                              .qkv_stride = spec.in_rows(),
                              .decay = decay_,
                              .has_channel_decay = spec.has_channel_decay,
                              .beta = beta_,
                              .out = mixed_,
                              .segments = step.segments,
                              .state = step.recurrent,
                              .num_heads = spec.num_heads,
                              .num_key_heads = spec.num_key_heads,
                              .tiled_heads = spec.tiled_heads,
                              .key_dim = spec.key_dim,
                              .value_dim = spec.value_dim});
  finish_output(step, gate, gate_stride);
}

void StateBlock::finish_output(const Step& step, const float* gate, int64_t gate_stride) {
  const StateSpec& spec = step.spec;
  gated_norm(stream_, {.x = mixed_,
                       .x_stride = spec.inner_size(),
                       .act = spec.gate,
                       .gate = gate,
                       .gate_stride = gate_stride,
                       .gate_first = spec.gate_first,
                       .normalizes = spec.has_norm,
                       .weight = step.weights.norm,
                       .shared_weight = spec.shared_norm,
                       .scale = spec.out_scale,
                       .eps = spec.norm_eps,
                       .num_tokens = step.num_tokens,
                       .size = spec.inner_size(),
                       .group_size = spec.has_norm ? spec.norm_group : spec.inner_size()});
}

void StateBlock::multiply(const LinearWeights& weights, ConstActivations x, int64_t x_stride,
                          float* y, int64_t num_tokens, bool accumulate, void* linear_workspace) {
  const ProductInputs inputs =
      product_inputs(stream_, {x, x_stride}, read_, num_tokens, weights.weight.k);
  run_linear(stream_,
             {.weights = weights,
              .x = inputs.x,
              .x_stride = inputs.x_stride,
              .y = y,
              .num_tokens = num_tokens,
              .accumulate = accumulate,
              .workspace = linear_workspace},
             lora_);
}

}  // namespace quire
