// The slots through which a checkpoint fills the mixers with a state.
#include <utility>

#include "nn/decoder_weights.h"

namespace quire {
namespace {

// The parts of the input projection, as StateSpec lists them.
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

}  // namespace

void DecoderWeights::add_state(int32_t index) {
  const StateSpec& state = spec_.layers[static_cast<size_t>(index)].state;
  StateWeights& weights = layers_[static_cast<size_t>(index)].state;
  add_state_inputs(index);
  add_steps(index);
  if (state.has_norm) {
    const size_t first = slots_.size();
    add_state_vector(
        index,
        {{TensorRole::kStateNorm, state.shared_norm ? state.norm_group : state.inner_size()}}, 1,
        false, weights.norm);
    for (size_t i = first; i < slots_.size(); ++i) slots_[i].head_rows = state.norm_group;
  }
  add_matrix(index, {{TensorRole::kStateOut, spec_.hidden_size}}, std::nullopt, state.inner_size(),
             weights.out, state.out_bias);
}

void DecoderWeights::add_state_inputs(int32_t index) {
  const StateSpec& state = spec_.layers[static_cast<size_t>(index)].state;
  StateWeights& weights = layers_[static_cast<size_t>(index)].state;
  const size_t first = slots_.size();
  add_matrix(index, input_parts(state), std::nullopt, spec_.hidden_size, weights.in,
             state.proj_bias);
  for (size_t i = first; i < slots_.size(); ++i) slots_[i].row_groups = state.num_key_heads;
  std::vector<SlotPart> conv = {{TensorRole::kStateConv, state.conv_channels()}};
  if (state.has_channel_decay) {
    conv = {{TensorRole::kStateConvQ, state.key_size()},
            {TensorRole::kStateConvK, state.key_size()},
            {TensorRole::kStateConvV, state.inner_size()}};
  }
  add_state_vector(index, conv, state.conv_kernel, false, weights.conv);
  if (state.conv_bias) add_state_vector(index, std::move(conv), 1, true, weights.conv_bias);
}

void DecoderWeights::add_steps(int32_t index) {
  const StateSpec& state = spec_.layers[static_cast<size_t>(index)].state;
  StateWeights& weights = layers_[static_cast<size_t>(index)].state;
  if (state.kind == StateKind::kShortConv) return;
  const bool scans = state.kind == StateKind::kSelectiveScan;
  const int64_t steps = state.num_heads * (state.has_channel_decay ? state.key_dim : 1);
  if (scans) {
    add_matrix(index, {{TensorRole::kStateX, state.rank + 2 * state.key_dim}}, std::nullopt,
               state.inner_size(), weights.x, false);
  }
  if (scans || state.has_channel_decay) {
    add_matrix(index, {{TensorRole::kStateStepUp, steps}}, std::nullopt, state.rank, weights.step,
               false);
  }
  if (state.has_channel_decay) {
    add_matrix(index, {{TensorRole::kStateGateUp, state.inner_size()}}, std::nullopt, state.rank,
               weights.gate, false);
  }
  if (state.step_norms == StepNorms::kWeighted) {
    add_state_vector(index, {{TensorRole::kStateStepNorm, state.rank}}, 1, false,
                     weights.step_norm);
    add_state_vector(index, {{TensorRole::kStateBNorm, state.key_dim}}, 1, false, weights.b_norm);
    add_state_vector(index, {{TensorRole::kStateCNorm, state.key_dim}}, 1, false, weights.c_norm);
  }
  add_state_vector(index, {{TensorRole::kStateStepBias, steps}}, 1, scans, weights.step_bias);
  add_state_vector(index, {{TensorRole::kStateA, state.num_heads}}, scans ? state.key_dim : 1,
                   false, weights.a);
  if (state.kind != StateKind::kDeltaRule)
    add_state_vector(index, {{TensorRole::kStateD, state.num_heads}}, 1, false, weights.d);
}

void DecoderWeights::add_state_vector(int32_t index, std::vector<SlotPart> parts, int64_t columns,
                                      bool bias, const float*& out) {
  add_vector(index, std::move(parts), std::nullopt, bias, out);
  slots_.back().vector_columns = columns;
}

}  // namespace quire
