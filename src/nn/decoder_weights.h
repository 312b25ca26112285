// The weights of a decoder in the layout of the kernels, and the slots through which a checkpoint
// fills them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "kernels/api/linear.h"
#include "nn/decoder_spec.h"
#include "nn/rank_share.h"
#include "nn/weights/cross_weights.h"
#include "nn/weights/draft_input_weights.h"
#include "nn/weights/experts_weights.h"
#include "nn/weights/latent_weights.h"
#include "nn/weights/linear_weights.h"
#include "nn/weights/norm_weights.h"
#include "nn/weights/shared_block_weights.h"
#include "nn/weights/state_weights.h"
#include "nn/weights/stream_weights.h"
#include "nn/weights/weight_slots.h"
#include "weights/checkpoint.h"

namespace quire {

struct LayerWeights {
  // Norms as BlockStyle has them; the others are null.
  NormWeights input_norm;
  LinearWeights qkv;              // [AttentionSpec::qkv_rows(), E]
  const float* q_norm = nullptr;  // as QkNorm says, or null
  const float* k_norm = nullptr;  // likewise
  LinearWeights o;                // [E, AttentionSpec::output_size()]
  LatentWeights latent;           // with LatentSpec::any()
  StateWeights state;
  CrossWeights cross;               // with DecoderSpec::cross
  NormWeights post_attention_norm;  // on the attention's output
  NormWeights pre_mlp_norm;
  NormWeights post_mlp_norm;  // on the MLP's output
  LinearWeights gate_up;      // [2 F, E], or [F, E] without a gate
  LinearWeights down;         // [E, F]
  ExpertsWeights experts;
  LinearWeights input_gate;                  // [P, E], with DecoderSpec::layer_inputs
  LinearWeights input_up;                    // [E, P]
  const float* input_norm_behind = nullptr;  // [E]
  const float* scale = nullptr;              // [1], with DecoderSpec::layer_scale
  const float* sinks = nullptr;              // [Hq] or null
  const float* xielu = nullptr;              // [2] with Activation::kXielu
};

struct PoolingLayerWeights {
  NormWeights input_norm;  // of the inputs, or null
  LinearWeights dense;     // [outputs, inputs]
  NormWeights norm;        // of the outputs, or null
};

// Points into memory that it does not own: an Arena, and the checkpoint's mapping for borrowed
// tables. Stays where it was made, because slots point into it. Filled once, then read by any
// thread.
class DecoderWeights : private WeightSlots {
 public:
  // `spec` is that of the whole model.
  DecoderWeights(const DecoderSpec& spec, const WeightOptions& options);
  DecoderWeights(const DecoderWeights&) = delete;
  DecoderWeights& operator=(const DecoderWeights&) = delete;

  using WeightSlots::slots;

  const TableWeight& token_embedding() const { return token_embedding_; }  // [V, E]
  // With DecoderSpec::relative_bias, of a layer: [buckets, heads].
  const float* relative_bias(size_t layer) const {
    return relative_biases_[spec_.relative_bias.per_layer ? layer : 0];
  }
  const TableWeight& position_embedding() const {
    return position_embedding_;
  }  // [num_positions, E] or null
  const TableWeight& token_type_embedding() const {
    return token_type_embedding_;
  }  // [num_token_types, E] or null
  const NormWeights& embedding_norm() const { return embedding_norm_; }
  // With DecoderSpec::layer_inputs: [its vocab_size, layers * P], [layers * P, E] and [P].
  const TableWeight& layer_table() const { return layer_table_; }
  const LinearWeights& layer_projection() const { return layer_projection_; }
  const float* layer_projection_norm() const { return layer_projection_norm_; }
  const StreamWeights& streams() const { return streams_; }  // with DecoderSpec::streams
  const SharedWeights& shared() const { return shared_; }    // with LayerSpec::shared
  const DraftInputWeights& draft_input() const { return draft_input_; }
  const LayerWeights& layer(size_t i) const { return layers_[i]; }
  // Of the layer whose attention and MLP layer i uses (SharedBlockSpec): mostly itself.
  const LayerWeights& block(size_t i) const {
    const SharedBlockSpec& shared = spec_.layers[i].shared;
    return layers_[shared.any() ? static_cast<size_t>(shared.weights_layer) : i];
  }
  const NormWeights& final_norm() const { return final_norm_; }
  const LinearWeights& lm_head() const { return lm_head_; }  // [V, E], empty without a head
  const PoolingLayerWeights& pooling_layer(size_t i) const { return pooling_layers_[i]; }

  // Largest workspace that linear() needs for one of these matrices, by the most rows that go
  // through each.
  struct MaxRows {
    int64_t attention = 0;
    int64_t mlp = 0;
    int64_t head = 0;
    int64_t pooled = 0;
  };
  int64_t linear_workspace(const Stream& stream, const MaxRows& rows) const;

  // Of the packed matrices of all layers and the head: what one step reads of them.
  int64_t matrix_bytes(const WeightPacking& packing) const;
  // How the widest matrices of the layers are multiplied.
  ComputeType matrix_compute() const;

 private:
  void add_norm(int32_t layer, TensorRole role, NormWeights& out, float scale = 1.0f);
  void add_relative_biases();
  void add_draft_input();
  void add_layer_inputs();
  void add_layer_input(int32_t index);
  void add_streams();
  void add_layer_streams(int32_t index);
  void add_shared_block(int32_t index);
  void add_expert_norms(int32_t index);
  void add_layer(int32_t index);
  void add_attention(int32_t index);
  void add_heads(int32_t index);
  void add_latent(int32_t index);
  void add_mlp(int32_t index);
  void add_experts(int32_t index);
  void add_state(int32_t index);
  void add_state_inputs(int32_t index);
  void add_steps(int32_t index);  // what decides how far a token moves a state
  // A vector of `rows` times `columns` elements.
  void add_state_vector(int32_t index, std::vector<SlotPart> parts, int64_t columns, bool bias,
                        const float*& out);
  void add_head();
  void add_pooling_layer(const PoolingLayerSpec& layer, PoolingLayerWeights& out);

  const DecoderSpec& spec_;
  TableWeight token_embedding_;
  std::vector<const float*> relative_biases_;
  TableWeight position_embedding_;
  TableWeight token_type_embedding_;
  NormWeights embedding_norm_;
  TableWeight layer_table_;
  LinearWeights layer_projection_;
  const float* layer_projection_norm_ = nullptr;
  StreamWeights streams_;
  SharedWeights shared_;
  DraftInputWeights draft_input_;
  std::vector<LayerWeights> layers_;
  NormWeights final_norm_;
  LinearWeights lm_head_;
  std::vector<PoolingLayerWeights> pooling_layers_;
};

}  // namespace quire
