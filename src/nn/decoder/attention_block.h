// AttentionBlock computes the attention of every layer of a decoder, from the projection of its
// input to its heads' outputs: queries, keys and values, positions, and attention over the paged
// cache. It owns no memory; its buffers lie in the decoder's arena.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/decoder/forward_inputs.h"
#include "nn/decoder/index_block.h"
#include "nn/decoder/latent_block.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/products/linear_product.h"
#include "nn/shared/shared_blocks.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// Borrows its arguments. One thread at a time may use it.
class AttentionBlock {
 public:
  // `shared` is null unless the model has blocks that layers share.
  AttentionBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                 const DecoderLimits& limits, BatchLinears& linears, SharedBlocks* shared,
                 Arena& arena);

  // Takes one cache per layer.
  void bind_cache(std::vector<LayerCache> layers);
  bool is_bound() const { return !cache_.empty(); }

  // The methods below are called in this order for a batch. prepare_positions() computes what
  // depends only on the tokens' positions.
  void prepare_positions(const ForwardInputs& inputs);
  // Computes the queries of a layer, and writes its keys and values to the cache. x is [T, E], or
  // [T, 2 E] for a layer that reads pairs.
  void project(const ForwardInputs& inputs, size_t layer, ConstActivations x);
  // Forgets how attention cut the last batch. Called before the first attend() of a batch.
  void begin_batch() { cut_done_.assign(cuts_.size(), false); }
  void attend(const ForwardInputs& inputs, size_t layer);
  // Returns the output of the last attend(), gated and scaled: [T, AttentionSpec::output_size()].
  ConstActivations heads() const { return heads_; }

 private:
  void project_heads(const ForwardInputs& inputs, size_t layer, ConstActivations x);
  void project_latents(const ForwardInputs& inputs, size_t layer, ConstActivations x);
  // Clips the queries, keys and values that project_heads() has computed.
  void clip(const AttentionSpec& attention, int64_t num_tokens);
  void find_cuts_of_one_table();
  void gate_heads(const AttentionSpec& attention, int64_t num_tokens);
  // Returns the bias of a layer with DecoderSpec::relative_bias, otherwise null.
  float* position_bias(size_t layer) const;

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  BatchLinears& linears_;
  SharedBlocks* shared_;
  Stream& stream_;
  std::vector<LayerCache> cache_;
  // These have room for the widest layer.
  Activations qkv_;                // [T, (Hq + 2 Hkv) * D]
  Activations heads_;              // [T, Hq * D]
  std::vector<float*> cos_, sin_;  // per rope [T, rotary_dim / 2]
  double* rope_scratch_;
  float* query_scale_;                  // [T], with DecoderSpec::query_scale
  float* position_bias_;                // [tables, Hq, position_bias_stride()]
  float* alibi_slopes_;                 // [Hq], with DecoderSpec::alibi_slopes
  std::optional<LatentBlock> latents_;  // for models with latent attention
  std::optional<IndexBlock> indexer_;   // for models with an indexer
  void* workspace_;
  int64_t workspace_bytes_;
  // How attention cuts the batch, once per AttentionCutKind: layer i uses cut layer_cut_[i].
  std::vector<void*> cuts_;
  std::vector<bool> cut_done_;
  std::vector<bool> cut_has_one_table_;  // whether the layers of a cut are in one group
  std::vector<size_t> layer_cut_;
};

}  // namespace quire
