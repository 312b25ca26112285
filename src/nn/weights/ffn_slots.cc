// The slots of MLPs and of routed experts.
#include <cmath>
#include <optional>

#include "nn/experts/expert_placement.h"
#include "nn/weights/decoder_slots.h"

namespace quire {
namespace {

// The router's input is also divided by the square root of its width.
void add_expert_norms(WeightSlots& slots, int64_t hidden_size, int32_t index,
                      ExpertsWeights& experts) {
  const auto add = [&](TensorRole role, const float*& out) {
    slots.add_vector(index, {role, hidden_size}, out);
  };
  add(TensorRole::kRouterNorm, experts.router_norm);
  slots.last().scale = 1.0f / std::sqrt(static_cast<float>(hidden_size));
  add(TensorRole::kPreExpertNorm, experts.pre_norm);
  add(TensorRole::kPostExpertNorm, experts.post_norm);
  add(TensorRole::kPostDenseNorm, experts.dense_norm);
}

}  // namespace

void add_mlp_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                   LayerWeights& layer) {
  const FfnSpec& ffn = spec.layers[static_cast<size_t>(index)].ffn;
  const int64_t size = ffn.intermediate_size;
  const bool shared = ffn.experts.any();
  const TensorRole gate = shared ? TensorRole::kSharedGate : TensorRole::kGate;
  const TensorRole up = shared ? TensorRole::kSharedUp : TensorRole::kUp;
  const TensorRole down = shared ? TensorRole::kSharedDown : TensorRole::kDown;
  const size_t inside = slots.count();
  const RowRange own = slots.options().share.outputs(size);
  if (ffn.gated) {
    const std::optional<TensorRole> fused =
        shared ? std::nullopt : std::optional(TensorRole::kGateUp);
    slots.add_matrix(index, {{gate, size}, {up, size}}, fused, spec.hidden_size, layer.gate_up,
                     ffn.bias);
    slots.keep(inside, {own, {size + own.begin, size + own.end}});
  } else {
    slots.add_matrix(index, {up, size}, spec.hidden_size, layer.gate_up, ffn.bias);
    slots.keep(inside, {own});
  }
  if (spec.clamps_products) {
    std::vector<TensorRole> bounds = {TensorRole::kUpBounds};
    if (ffn.gated) bounds.insert(bounds.begin(), TensorRole::kGateBounds);
    add_bound_slots(slots, index, inside, bounds, layer.gate_up);
  }
  if (ffn.has_inner_norm) slots.add_vector(index, {TensorRole::kInnerNorm, size}, layer.inner_norm);
  const size_t output = slots.count();
  slots.add_matrix(index, {down, spec.hidden_size}, size, layer.down, ffn.bias);
  slots.keep(output, {slots.options().share.outputs(spec.hidden_size)});
  if (spec.clamps_products)
    add_bound_slots(slots, index, output, {TensorRole::kDownBounds}, layer.down);
  if (ffn.activation == Activation::kXielu) {
    slots.add_vector(index, {{TensorRole::kXieluP, 1}, {TensorRole::kXieluN, 1}}, std::nullopt,
                     false, layer.xielu);
  }
}

void add_expert(WeightSlots& slots, const DecoderSpec& spec, const ExpertPlace& place,
                ExpertsWeights::Expert& out) {
  const ExpertsSpec& experts = spec.layers[static_cast<size_t>(place.layer)].ffn.experts;
  const RankShare& share = slots.options().share;
  const size_t first_slot = slots.count();
  const auto add = [&](TensorRole role, int64_t rows, int64_t columns, LinearWeights& matrix) {
    const size_t first = slots.count();
    slots.add_matrix(place.layer, {role, rows}, columns, matrix, experts.bias);
    if (share.spreads_experts()) {
      slots.keep(first, {place.is_own ? RowRange{0, rows} : RowRange{}});
    } else {
      slots.keep(first, {share.outputs(rows)});
    }
  };
  const int64_t size = experts.intermediate_size;
  if (experts.gated) add(TensorRole::kExpertGate, size, spec.hidden_size, out.gate);
  add(TensorRole::kExpertUp, size, spec.hidden_size, out.up);
  add(TensorRole::kExpertDown, spec.hidden_size, size, out.down);
  for (WeightSlot& slot : slots.from(first_slot)) slot.expert = place.expert;
}

void add_expert_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                      ExpertsWeights& weights) {
  const ExpertsSpec& experts = spec.layers[static_cast<size_t>(index)].ffn.experts;
  const int64_t num_experts = experts.router.num_experts;
  const int64_t hidden = spec.hidden_size;
  slots.add_exact_matrix(index, {TensorRole::kRouter, num_experts}, hidden, weights.router,
                         experts.router_bias);
  if (experts.has_correction) {
    slots.add_vector(index, {TensorRole::kRouterCorrection, num_experts}, weights.correction);
  }
  if (experts.has_shared_router)
    slots.add_exact_matrix(index, {TensorRole::kSharedRouter, 1}, hidden, weights.shared_router,
                           false);
  if (experts.has_scale) {
    slots.add_vector(index, {TensorRole::kExpertScale, num_experts}, weights.scale);
  }
  if (experts.own_norms) add_expert_norms(slots, hidden, index, weights);
  const RankShare& share = slots.options().share;
  const RowRange own = share.expert_slots(num_experts);
  weights.expert_of = first_placement(num_experts, share.num_expert_slots(num_experts));
  weights.slots.resize(weights.expert_of.size());
  for (size_t slot = 0; slot < weights.slots.size(); ++slot) {
    const auto at = static_cast<int64_t>(slot);
    add_expert(slots, spec,
               {.layer = index,
                .expert = weights.expert_of[slot],
                .is_own = at >= own.begin && at < own.end},
               weights.slots[slot]);
  }
}

}  // namespace quire
