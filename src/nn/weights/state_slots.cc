// The slots of mixers with a state.
#include <optional>
#include <utility>
#include <vector>

#include "nn/weights/decoder_slots.h"

namespace quire {
namespace {

// Returns the parts of the input projection, as StateSpec lists them.
std::vector<SlotPart> input_parts(const StateSpec& state) {
  if (state.kind != StateKind::kDeltaRule) return {{TensorRole::kStateIn, state.in_rows()}};
  std::vector<SlotPart> parts = {{TensorRole::kStateQ, state.key_size()},
                                 {TensorRole::kStateK, state.key_size()},
                                 {TensorRole::kStateV, state.inner_size()},
                                 {TensorRole::kStateBeta, state.num_heads}};
  if (state.has_channel_decay) {
    parts.push_back({TensorRole::kStateStepDown, state.rank});
    parts.push_back({TensorRole::kStateGateDown, state.rank});
  } else {
    parts.push_back({TensorRole::kStateZ, state.inner_size()});
    parts.push_back({TensorRole::kStateStep, state.num_heads});
  }
  return parts;
}

// Adds a vector whose length is the parts' rows times `columns`.
void add_columns(WeightSlots& slots, int32_t index, std::vector<SlotPart> parts, int64_t columns,
                 const float*& out, bool bias = false) {
  slots.add_vector(index, std::move(parts), std::nullopt, bias, out);
  slots.last().vector_columns = columns;
}

void add_inputs(WeightSlots& slots, const DecoderSpec& spec, int32_t index, StateWeights& weights) {
  const StateSpec& state = spec.layers[static_cast<size_t>(index)].state;
  const size_t first = slots.count();
  slots.add_matrix(index, input_parts(state), std::nullopt, spec.hidden_size, weights.in,
                   state.proj_bias);
  for (WeightSlot& slot : slots.from(first)) slot.row_groups = state.num_key_heads;
  std::vector<SlotPart> conv = {{TensorRole::kStateConv, state.conv_channels()}};
  if (state.has_channel_decay) {
    conv = {{TensorRole::kStateConvQ, state.key_size()},
            {TensorRole::kStateConvK, state.key_size()},
            {TensorRole::kStateConvV, state.inner_size()}};
  }
  add_columns(slots, index, conv, state.conv_kernel, weights.conv);
  if (state.conv_bias) add_columns(slots, index, std::move(conv), 1, weights.conv_bias, true);
}

// Adds the weights that decide how far a token moves a state.
void add_steps(WeightSlots& slots, const DecoderSpec& spec, int32_t index, StateWeights& weights) {
  const StateSpec& state = spec.layers[static_cast<size_t>(index)].state;
  if (state.kind == StateKind::kShortConv) return;
  const bool scans = state.kind == StateKind::kSelectiveScan;
  const int64_t steps = state.num_heads * (state.has_channel_decay ? state.key_dim : 1);
  if (scans) {
    slots.add_matrix(index, {TensorRole::kStateX, state.rank + 2 * state.key_dim},
                     state.inner_size(), weights.x);
  }
  if (scans || state.has_channel_decay) {
    slots.add_matrix(index, {TensorRole::kStateStepUp, steps}, state.rank, weights.step);
  }
  if (state.has_channel_decay) {
    slots.add_matrix(index, {TensorRole::kStateGateUp, state.inner_size()}, state.rank,
                     weights.gate);
  }
  if (state.step_norms == StepNorms::kWeighted) {
    add_columns(slots, index, {{TensorRole::kStateStepNorm, state.rank}}, 1, weights.step_norm);
    add_columns(slots, index, {{TensorRole::kStateBNorm, state.key_dim}}, 1, weights.b_norm);
    add_columns(slots, index, {{TensorRole::kStateCNorm, state.key_dim}}, 1, weights.c_norm);
  }
  add_columns(slots, index, {{TensorRole::kStateStepBias, steps}}, 1, weights.step_bias, scans);
  add_columns(slots, index, {{TensorRole::kStateA, state.num_heads}}, scans ? state.key_dim : 1,
              weights.a);
  if (state.kind != StateKind::kDeltaRule)
    add_columns(slots, index, {{TensorRole::kStateD, state.num_heads}}, 1, weights.d);
}

}  // namespace

void add_state_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t index,
                     StateWeights& weights) {
  const StateSpec& state = spec.layers[static_cast<size_t>(index)].state;
  add_inputs(slots, spec, index, weights);
  add_steps(slots, spec, index, weights);
  if (state.has_norm) {
    const int64_t size = state.shared_norm ? state.norm_group : state.inner_size();
    add_columns(slots, index, {{TensorRole::kStateNorm, size}}, 1, weights.norm);
    slots.last().head_rows = state.norm_group;
  }
  slots.add_matrix(index, {TensorRole::kStateOut, spec.hidden_size}, state.inner_size(),
                   weights.out, state.out_bias);
}

}  // namespace quire
