#include "nn/decoder/ffn_block.h"

#include <algorithm>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/linear.h"
#include "kernels/api/streams/residual_streams.h"
#include "nn/decoder/decoder_memory.h"
#include "nn/products/block_norm.h"

namespace quire {

FfnBlock::FfnBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                   const DecoderLimits& limits, BatchLinears& linears, SharedBlocks* shared,
                   Arena& arena)
    : spec_(spec),
      weights_(weights),
      linears_(linears),
      shared_(shared),
      stream_(linears.stream()) {
  const BufferSizes sizes(spec, limits);
  gate_up_ = allocate_activations(arena, limits, sizes.gate_up);
  inside_ = allocate_activations(arena, limits, sizes.ffn);
  if (spec.has_experts()) {
    experts_.emplace(
        spec, weights,
        BlockLimits{std::min(limits.max_tokens, limits.mlp_tokens), limits.activation_type},
        linears, arena);
  }
}

void FfnBlock::run(size_t index, ConstActivations x, Activations out, int64_t num_tokens,
                   bool accumulate) {
  const FfnSpec& ffn = spec_.layers[index].ffn;
  const LayerWeights& weights = weights_.block(index);
  RankExchange* const ranks = linears_.ranks();
  if (ffn.experts.any() && !ffn.experts.own_norms) {
    const GpuRange range(stream_, "experts", index);
    experts_->run(index, x, out, accumulate, num_tokens);
    accumulate = true;
  }
  if (ffn.intermediate_size == 0) return;
  Columns inside{ffn.gated ? inside_ : gate_up_, ffn.intermediate_size};
  // Values that are written with gaps between their rows go straight to this rank's columns.
  const bool in_place = ranks != nullptr && !ffn.experts.has_shared_router &&
                        !linears_.has_updates(weights.gate_up) && gates_in_product(ffn, weights);
  if (in_place) inside = {ranks->own_inside(index), ranks->inside_stride(index)};
  activate(index, x, inside, num_tokens);
  if (ffn.experts.has_shared_router) experts_->scale_shared(index, x, inside.data, num_tokens);
  if (ffn.inner_scale != 1.0f)
    scale_columns(stream_, inside, ffn.intermediate_size, ffn.inner_scale, num_tokens);
  if (ffn.has_inner_norm) {
    gated_norm(stream_, {.x = inside.data,
                         .x_stride = inside.stride,
                         .weight = weights.inner_norm,
                         .eps = spec_.norm_eps,
                         .num_tokens = num_tokens,
                         .size = ffn.intermediate_size,
                         .group_size = ffn.intermediate_size});
  }
  ConstActivations activated = inside.data;
  if (ranks != nullptr) {
    if (!in_place) ranks->put_inside(index, activated, num_tokens);
    activated = ranks->gather_inside(index, num_tokens);
  }
  linears_.run_output(weights.down, activated, out, num_tokens, accumulate);
}

void FfnBlock::add_experts_beside(size_t index, const float* hidden, Activations dense,
                                  int64_t num_tokens) {
  experts_->add_beside(index, hidden, dense, num_tokens);
}

bool FfnBlock::gates_in_product(const FfnSpec& ffn, const LayerWeights& weights) const {
  const std::vector<PackedWeight>& parts = weights.gate_up.weight.parts;
  // Products on a GPU can only end with these two activations.
  const bool product_activates = gate_up_.dtype() == DType::kF32 ||
                                 ffn.activation == Activation::kSilu ||
                                 ffn.activation == Activation::kGeluTanh;
  return ffn.gated && product_activates && ffn.gate_scale == 1.0f && !ffn.gate_cut &&
         parts.size() == 1 && linear_gates(stream_, parts.front().spec);
}

void FfnBlock::activate_in_product(size_t index, ConstActivations x, const Columns& inside,
                                   int64_t num_tokens) {
  const LinearWeights& gate_up = weights_.block(index).gate_up;
  const bool has_scratch = gate_up_.dtype() == DType::kF32;  // where outputs are floats
  const LinearGate gate{.activation = spec_.layers[index].ffn.activation,
                        .scratch = has_scratch ? static_cast<float*>(gate_up_) : nullptr};
  linear(stream_, {.x = x,
                   .x_stride = spec_.hidden_size,
                   .weight = &gate_up.weight.parts.front(),
                   .bias = gate_up.bias,
                   .y = inside.data,
                   .y_stride = inside.stride,
                   .num_rows = num_tokens,
                   .workspace = linears_.workspace(),
                   .gate = &gate});
}

void FfnBlock::activate(size_t index, ConstActivations x, const Columns& inside,
                        int64_t num_tokens) {
  const FfnSpec& ffn = spec_.layers[index].ffn;
  const LayerWeights& weights = weights_.block(index);
  const LinearWeights& gate_up = weights.gate_up;
  const bool is_shared = spec_.layers[index].shared.any();
  // An update changes the input of the activation, so that it must come between product and
  // activation.
  const bool has_updates = is_shared || linears_.has_updates(gate_up);
  if (!has_updates && gates_in_product(ffn, weights))
    return activate_in_product(index, x, inside, num_tokens);
  const Columns whole{gate_up_, ffn.gate_up_rows()};
  linears_.run(gate_up, x, whole, num_tokens);
  if (is_shared) shared_->update_gate_up(index, x, gate_up_, num_tokens, linears_.workspace());
  if (ffn.gate_scale != 1.0f)
    scale_columns(stream_, whole, ffn.intermediate_size, ffn.gate_scale, num_tokens);
  if (ffn.gate_cut) {
    cut_below(stream_, {.x = gate_up_,
                        .x_stride = whole.stride,
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

}  // namespace quire
