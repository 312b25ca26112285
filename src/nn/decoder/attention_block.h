// AttentionBlock computes the attention of every layer of a decoder, from the projection of its
// input to its heads' outputs: queries, keys and values, positions, the walk over the paged cache.
// It owns no memory; its buffers lie in the decoder's arena.
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

// Borrows what it is made of. One thread at a time may use it.
class AttentionBlock {
 public:
  // `shared` belongs to models with blocks that layers share; else it is null.
  AttentionBlock(const DecoderSpec& spec, const DecoderWeights& weights,
                 const DecoderLimits& limits, BatchLinears& linears, SharedBlocks* shared,
                 Arena& arena);

  // There is one cache per layer.
  void bind_cache(std::vector<LayerCache> layers);
  bool is_bound() const { return !cache_.empty(); }

  // The steps of a batch come in this order. This first one computes what depends on the tokens'
  // positions alone.
  void prepare_positions(const ForwardInputs& inputs);
  // Queries of a layer, and its keys and values to the cache. x [T, E], or [T, 2 E] of pairs.
  void project(const ForwardInputs& inputs, size_t layer, ConstActivations x);
  // Forgets how attention cut the last batch: before the first attend() of a batch.
  void begin_batch() { cut_done_.assign(cuts_.size(), false); }
  void attend(const ForwardInputs& inputs, size_t layer);
  // Returns what the last attend() made, gated and scaled: [T, AttentionSpec::output_size()].
  ConstActivations heads() const { return heads_; }

 private:
  void project_heads(const ForwardInputs& inputs, size_t layer, ConstActivations x);
  void project_latents(const ForwardInputs& inputs, size_t layer, ConstActivations x);
  // Of what project_heads() has made of the rows.
  void clip(const AttentionSpec& attention, int64_t num_tokens);
  void find_cuts_of_one_table();
  void gate_heads(const AttentionSpec& attention, int64_t num_tokens);
  // Returns the bias of a layer with DecoderSpec::relative_bias, else null.
  float* position_bias(size_t layer) const;

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  BatchLinears& linears_;
  SharedBlocks* shared_;
  Stream& stream_;
  std::vector<LayerCache> cache_;
  // These have room for the widest layer:
  Activations qkv_;                // [T, (Hq + 2 Hkv) * D]
  Activations heads_;              // [T, Hq * D]
  std::vector<float*> cos_, sin_;  // per rope [T, rotary_dim / 2]
  double* rope_scratch_;
  float* query_scale_;                  // [T], with DecoderSpec::query_scale
  float* position_bias_;                // [tables, Hq, position_bias_stride()]
  float* alibi_slopes_;                 // [Hq], with DecoderSpec::alibi_slopes
  std::optional<LatentBlock> latents_;  // of models with latent attention
  std::optional<IndexBlock> indexer_;   // of those that attend to some tokens alone
  void* workspace_;
  int64_t workspace_bytes_;
  // They say how attention cut the batch, once per AttentionCutKind: layer i uses cut
  // layer_cut_[i].
  std::vector<void*> cuts_;
  std::vector<bool> cut_done_;
  std::vector<bool> cut_has_one_table_;  // its layers are in one group
  std::vector<size_t> layer_cut_;
};

}  // namespace quire
