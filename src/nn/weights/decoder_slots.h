// A checkpoint fills a decoder's weights through slots. Each function adds the slots of one part,
// which point to its last argument. `spec` is that of the whole model, of which each rank stores
// its share; `layer` is the index of a layer, or -1 for a part that belongs to none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/decoder_spec.h"
#include "nn/weights/draft_input_weights.h"
#include "nn/weights/layer_weights.h"
#include "nn/weights/shared_block_weights.h"
#include "nn/weights/stream_weights.h"
#include "nn/weights/weight_slots.h"

namespace quire {

// Adds a norm of the hidden size.
void add_norm_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer, TensorRole role,
                    NormWeights& out);

// The next functions add parts of a layer.
void add_attention_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer,
                         LayerWeights& out);
void add_state_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer, StateWeights& out);
// For layers with cross-attention.
void add_cross_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer, CrossWeights& out);
void add_mlp_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer, LayerWeights& out);
void add_expert_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer,
                      ExpertsWeights& out);
// The place of one expert. If experts are spread over ranks, is_own says whether this rank has it,
// whole.
struct ExpertPlace {
  int32_t layer = 0;
  int32_t expert = 0;
  bool is_own = true;
};
void add_expert(WeightSlots& slots, const DecoderSpec& spec, const ExpertPlace& place,
                ExpertsWeights::Expert& out);
void add_layer_input_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer,
                           LayerWeights& out);
void add_layer_stream_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer,
                            LayerStreamWeights& out);
void add_shared_block_slots(WeightSlots& slots, const DecoderSpec& spec, int32_t layer,
                            SharedBlockWeights& out);

// Adds the bounds (DecoderSpec::clamps_products) of the matrix of slot `matrix_slot`, one role for
// each of its parts.
void add_bound_slots(WeightSlots& slots, int32_t layer, size_t matrix_slot,
                     const std::vector<TensorRole>& roles, LinearWeights& out);

// The next functions add parts of the model.
void add_stream_slots(WeightSlots& slots, const DecoderSpec& spec, StreamWeights& out);
void add_draft_input_slots(WeightSlots& slots, const DecoderSpec& spec, DraftInputWeights& out);
void add_head_slots(WeightSlots& slots, const DecoderSpec& spec, LinearWeights& out);
// Adds a layer for pooling. It has few rows and a large influence, so it keeps its stored type and
// is multiplied in float32.
void add_pooling_slots(WeightSlots& slots, const PoolingLayerSpec& layer, PoolingLayerWeights& out);

}  // namespace quire
