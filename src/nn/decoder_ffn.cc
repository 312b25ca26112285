// The part of a layer behind its mixer: MLP, experts, and what the layer does to the residual stream
// at its end.
#include <algorithm>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/linear.h"
#include "kernels/api/streams/residual_streams.h"
#include "nn/decoder.h"

namespace quire {

void Decoder::ffn_block(size_t index, int64_t num_tokens) {
  const LayerWeights& weights = weights_.layer(index);
  if (!spec_.layers[index].ffn.any() || spec_.layers[index].shared.any()) return;
  for (int64_t begin = 0; begin < num_tokens; begin += limits_.mlp_tokens) {
    const int64_t count = std::min(limits_.mlp_tokens, num_tokens - begin);
    if (lora_) lora_->select(begin, count);
    float* hidden = hidden_ + begin * spec_.hidden_size;
    const ConstActivations x = mlp_input(weights, hidden, begin, count);
    if (spec_.block.changes_outputs()) {
      run_ffn(index, x, block_out_, count, false);
      if (spec_.layers[index].ffn.experts.own_norms)
        experts_->add_beside(index, hidden, block_out_, count, linear_workspace_);
      add_changed(weights.post_mlp_norm, hidden, count);
    } else {
      run_ffn(index, x, hidden, count, true);
    }
    if (spec_.block.residual == ResidualStyle::kNormOfSum)
      run_norm(weights.post_mlp_norm, hidden, hidden, count);
  }
  if (lora_) lora_->select(0, num_tokens);
}

void Decoder::shared_block(size_t index, int64_t num_tokens) {
  const LayerWeights& weights = weights_.block(index);
  float* const inside = shared_->inside();
  run_linear(weights.o, attention_, inside, num_tokens, false);
  for (int64_t begin = 0; begin < num_tokens; begin += limits_.mlp_tokens) {
    const int64_t count = std::min(limits_.mlp_tokens, num_tokens - begin);
    if (lora_) lora_->select(begin, count);
    float* const rows = inside + begin * spec_.hidden_size;
    run_norm(weights.pre_mlp_norm, rows, normed_, count);
    run_ffn(index, normed_, rows, count, false);
  }
  if (lora_) lora_->select(0, num_tokens);
  const float* const mixed = shared_->end(index, hidden_, num_tokens, linear_workspace_);
  run_norm(weights_.layer(index).input_norm, mixed, normed_, num_tokens);
  states_->project(index, normed_, num_tokens, linear_workspace_);
}

void Decoder::run_ffn(size_t index, ConstActivations x, Activations out, int64_t num_tokens,
                      bool accumulate) {
  const FfnSpec& ffn = spec_.layers[index].ffn;
  const LayerWeights& weights = weights_.block(index);
  if (ffn.experts.any() && !ffn.experts.own_norms) {
    const GpuRange range(stream_, "experts", index);
    experts_->run(index, x, out, accumulate, num_tokens, linear_workspace_);
    accumulate = true;
  }
  if (ffn.intermediate_size == 0) return;
  Columns inside{ffn.gated ? ffn_ : gate_up_, ffn.intermediate_size};
  // What is computed with gaps between its rows need not be copied there.
  const bool has_updates = lora_ && lora_->changes(weights.gate_up.weight);
  const bool in_place = ranks_ != nullptr && !ffn.experts.has_shared_router && !has_updates &&
                        fuses_gate(ffn, weights);
  if (in_place) inside = {ranks_->own_inside(index), ranks_->inside_stride(index)};
  run_activated(index, x, inside, num_tokens);
  if (ffn.experts.has_shared_router)
    experts_->scale_shared(index, x, inside.data, num_tokens, linear_workspace_);
  if (ffn.inner_scale != 1.0f)
    scale_columns(inside.data, inside.stride, ffn.intermediate_size, ffn.inner_scale, num_tokens);
  ConstActivations activated = inside.data;
  if (ranks_ != nullptr) {
    if (!in_place) ranks_->put_inside(index, activated, num_tokens);
    activated = ranks_->gather_inside(index, num_tokens);
  }
  run_output(weights.down, activated, out, num_tokens, accumulate);
}

void Decoder::scale_columns(Activations x, int64_t stride, int64_t size, float scale,
                            int64_t num_tokens) {
  gated_norm(stream_, {.x = x,
                       .x_stride = stride,
                       .normalizes = false,
                       .scale = scale,
                       .num_tokens = num_tokens,
                       .size = size,
                       .group_size = size});
}

ConstActivations Decoder::mlp_input(const LayerWeights& weights, const float* hidden, int64_t begin,
                                    int64_t count) {
  if (spec_.block.residual == ResidualStyle::kNormOfSum) return hidden;
  if (spec_.block.residual != ResidualStyle::kSequential)
    return normed_.from(begin * spec_.hidden_size);
  if (!spec_.block.input_norms) return hidden;
  run_norm(weights.pre_mlp_norm, hidden, normed_, count);
  return normed_;
}

bool Decoder::fuses_gate(const FfnSpec& ffn, const LayerWeights& weights) const {
  const std::vector<PackedWeight>& parts = weights.gate_up.weight.parts;
  // A GPU's products end with these two alone.
  const bool is_known = gate_up_.dtype() == DType::kF32 || ffn.activation == Activation::kSilu ||
                        ffn.activation == Activation::kGeluTanh;
  return ffn.gated && is_known && ffn.gate_scale == 1.0f && !ffn.gate_cut && parts.size() == 1 &&
         linear_gates(stream_, parts.front().spec);
}

void Decoder::run_activated(size_t index, ConstActivations x, const Columns& inside,
                            int64_t num_tokens) {
  const FfnSpec& ffn = spec_.layers[index].ffn;
  const LayerWeights& weights = weights_.block(index);
  const LinearWeights& gate_up = weights.gate_up;
  // An update changes what is activated.
  const SharedBlockSpec& shared = spec_.layers[index].shared;
  const bool has_updates = shared.any() || (lora_ && lora_->changes(gate_up.weight));
  if (!has_updates && fuses_gate(ffn, weights)) {
    const bool has_scratch = gate_up_.dtype() == DType::kF32;  // where outputs are floats
    const LinearGate gate{.activation = ffn.activation,
                          .scratch = has_scratch ? static_cast<float*>(gate_up_) : nullptr};
    linear(stream_, {.x = x,
                     .x_stride = spec_.hidden_size,
                     .weight = &gate_up.weight.parts.front(),
                     .bias = gate_up.bias,
                     .y = inside.data,
                     .y_stride = inside.stride,
                     .num_rows = num_tokens,
                     .workspace = linear_workspace_,
                     .gate = &gate});
    return;
  }
  run_linear(gate_up, x, gate_up_, num_tokens, false);
  if (shared.any()) shared_->update_gate_up(index, x, gate_up_, num_tokens, linear_workspace_);
  if (ffn.gate_scale != 1.0f)
    scale_columns(gate_up_, ffn.gate_up_rows(), ffn.intermediate_size, ffn.gate_scale, num_tokens);
  if (ffn.gate_cut) {
    cut_below(stream_, {.x = gate_up_,
                        .x_stride = ffn.gate_up_rows(),
                        .deviations = *ffn.gate_cut,
                        .num_tokens = num_tokens,
                        .size = ffn.intermediate_size});
  }
  activation(stream_, {.x = gate_up_,
                       .out = inside.data,
                       .activation = ffn.activation,
                       .gated = ffn.gated,
                       .num_tokens = num_tokens,
                       .ffn_size = ffn.intermediate_size,
                       .xielu = weights.xielu});
}

void Decoder::end_layer(const ForwardInputs& inputs, size_t index) {
  const int64_t num_tokens = inputs.num_tokens;
  for (const GivenRows& given : inputs.given_rows) {
    if (static_cast<int64_t>(index) >= given.num_added) continue;
    for (int64_t row = 0; row < given.count; ++row) {
      const float* const from =
          given.rows + row * given.stride + (static_cast<int64_t>(index) + 1) * spec_.hidden_size;
      float* const to = hidden_ + (given.first + row) * spec_.hidden_size;
      for (int64_t i = 0; i < spec_.hidden_size; ++i) to[i] += from[i];
    }
  }
  if (streams_) {
    streams_->correct(index, hidden_, num_tokens, linear_workspace_);
    if (layer_inputs_)
      streams_->add(layer_inputs_->make(index, hidden_, num_tokens, linear_workspace_), num_tokens);
  } else if (layer_inputs_) {
    layer_inputs_->add(index, hidden_, num_tokens, linear_workspace_);
  }
  if (!spec_.layer_scale || !spec_.layers[index].any()) return;
  scale_columns(hidden_, spec_.hidden_size, spec_.hidden_size, *weights_.layer(index).scale,
                num_tokens);
}

}  // namespace quire
