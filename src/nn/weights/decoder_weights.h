// DecoderWeights are the weights of a decoder in the layout of the kernels, and the slots through
// which a checkpoint fills them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "kernels/api/linear.h"
#include "nn/decoder_spec.h"
#include "nn/rank_share.h"
#include "nn/weights/draft_input_weights.h"
#include "nn/weights/layer_weights.h"
#include "nn/weights/linear_weights.h"
#include "nn/weights/matrix_bytes.h"
#include "nn/weights/norm_weights.h"
#include "nn/weights/shared_block_weights.h"
#include "nn/weights/stream_weights.h"
#include "nn/weights/weight_slots.h"
#include "weights/checkpoint.h"

namespace quire {

// Points into memory that it does not own: an Arena, and the checkpoint's mapping for borrowed
// tables. It cannot be moved, because slots point into it. It is filled once; then any thread may
// read it.
class DecoderWeights {
 public:
  // `spec` is that of the whole model.
  DecoderWeights(const DecoderSpec& spec, const WeightOptions& options);
  DecoderWeights(const DecoderWeights&) = delete;
  DecoderWeights& operator=(const DecoderWeights&) = delete;

  // load_checkpoint() or fill_random() must fill them before the first forward pass.
  const std::vector<WeightSlot>& slots() const { return slots_.all(); }

  const TableWeight& token_embedding() const { return token_embedding_; }  // [V, E]
  // For DecoderSpec::relative_bias: returns the biases of a layer, [buckets, heads].
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
  // For DecoderSpec::layer_inputs: [its vocab_size, layers * P], [layers * P, E] and [P].
  const TableWeight& layer_table() const { return layer_table_; }
  const LinearWeights& layer_projection() const { return layer_projection_; }
  const float* layer_projection_norm() const { return layer_projection_norm_; }
  const StreamWeights& streams() const { return streams_; }  // for DecoderSpec::streams
  const SharedWeights& shared() const { return shared_; }    // for LayerSpec::shared
  const DraftInputWeights& draft_input() const { return draft_input_; }
  size_t num_layers() const { return layers_.size(); }
  const LayerWeights& layer(size_t i) const { return layers_[i]; }
  // For changing the placement of a layer's experts between two forward passes.
  ExpertsWeights& experts(size_t layer) { return layers_[layer].experts; }
  // Returns the layer whose attention and MLP layer i uses (SharedBlockSpec), usually itself.
  const LayerWeights& block(size_t i) const {
    const SharedBlockSpec& shared = spec_.layers[i].shared;
    return layers_[shared.any() ? static_cast<size_t>(shared.weights_layer) : i];
  }
  const NormWeights& final_norm() const { return final_norm_; }
  const LinearWeights& lm_head() const { return lm_head_; }  // [V, E], empty without a head
  const PoolingLayerWeights& pooling_layer(size_t i) const { return pooling_layers_[i]; }

  // The most rows that go through each kind of matrix. linear_workspace() returns the largest
  // workspace that linear() needs for any of them.
  struct MaxRows {
    int64_t attention = 0;
    int64_t mlp = 0;
    int64_t head = 0;
    int64_t pooled = 0;
  };
  int64_t linear_workspace(const Stream& stream, const MaxRows& rows) const;

  // Returns the bytes of the packed matrices of all layers and of the head.
  MatrixBytes matrix_bytes(const WeightPacking& packing) const;
  // Returns the type in which the widest matrices of the layers are multiplied.
  ComputeType matrix_compute() const;

 private:
  void add_layer(int32_t index);

  const DecoderSpec& spec_;
  WeightSlots slots_;
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
