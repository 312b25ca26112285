// The weights of one layer of a decoder, and of one layer behind the pooling (PoolingSpec).
#pragma once

#include "nn/weights/cross_weights.h"
#include "nn/weights/experts_weights.h"
#include "nn/weights/index_weights.h"
#include "nn/weights/latent_weights.h"
#include "nn/weights/linear_weights.h"
#include "nn/weights/norm_weights.h"
#include "nn/weights/state_weights.h"

namespace quire {

struct LayerWeights {
  // The norms of BlockStyle; those that a model lacks are null.
  NormWeights input_norm;
  LinearWeights qkv;                   // [AttentionSpec::qkv_rows(), E]
  const float* q_norm = nullptr;       // as QkNorm says, or null
  const float* k_norm = nullptr;       // likewise
  const float* q_norm_bias = nullptr;  // of QkNorm::kBiasedHead: [D]
  const float* k_norm_bias = nullptr;
  const float* heads_norm = nullptr;  // [AttentionSpec::output_size()], with has_output_norm
  LinearWeights o;                    // [E, AttentionSpec::output_size()]
  LatentWeights latent;               // with LatentSpec::any()
  IndexWeights index;                 // with IndexSpec::chooses()
  StateWeights state;
  CrossWeights cross;               // for layers with cross-attention
  NormWeights post_attention_norm;  // on the attention's output
  NormWeights pre_mlp_norm;
  NormWeights post_mlp_norm;          // on the MLP's output
  LinearWeights gate_up;              // [2 F, E], or [F, E] without a gate
  LinearWeights down;                 // [E, F]
  const float* inner_norm = nullptr;  // [F], with FfnSpec::has_inner_norm
  ExpertsWeights experts;
  LinearWeights input_gate;                  // [P, E], with DecoderSpec::layer_inputs
  LinearWeights input_up;                    // [E, P]
  const float* input_norm_behind = nullptr;  // [E], of what the layer's own input adds
  const float* scale = nullptr;              // [1], with DecoderSpec::layer_scale
  const float* sinks = nullptr;              // [Hq] or null
  const float* xielu = nullptr;              // [2] with Activation::kXielu
};

struct PoolingLayerWeights {
  NormWeights input_norm;              // of the layer's input, or null
  const float* input_shift = nullptr;  // [inputs] each, for InputNormSpec::shifts_input, or null
  const float* input_factor = nullptr;
  LinearWeights dense;  // [outputs, inputs]
  NormWeights norm;     // of its output, or null
};

}  // namespace quire
