// IndexBlock computes the indexer of every layer that has one (kernels/api/sparse_attention.h), and
// attention to the tokens that it chooses. It owns no memory; its buffers lie in the decoder's
// arena.
#pragma once

#include <cstdint>

#include "kernels/api/attention.h"
#include "kernels/api/sparse_attention.h"
#include "nn/decoder/forward_inputs.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// The inputs of a layer's indexer for a batch.
struct IndexStep {
  ConstActivations x = nullptr;             // [T, E]: the input of the layer's attention
  ConstActivations query_latent = nullptr;  // [T, LatentSpec::query_rank], normed
  int64_t query_latent_stride = 0;
  const float* cos = nullptr;  // [T, LatentSpec::rope_dim / 2]
  const float* sin = nullptr;
};

// Borrows its arguments. One thread at a time may use it.
class IndexBlock {
 public:
  // Returns the bytes that it takes from its arena.
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits,
                              const Stream& stream);

  IndexBlock(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
             Stream& stream, Arena& arena);

  // Writes the layer's index keys, and chooses tokens for every token of the batch. A layer without
  // an indexer of its own uses the choice of the nearest earlier layer that has one.
  void choose(size_t layer, const ForwardInputs& inputs, const LayerCache& cache,
              const IndexStep& step, void* linear_workspace);
  // Computes attention to the chosen tokens, with `params` except for the workspace.
  void attend(size_t layer, const PagedAttentionParams& params);

 private:
  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  Stream& stream_;
  // These have room for the widest layer.
  Activations query_;         // [T, H * D]
  Activations key_;           // [T, D]
  Activations head_weights_;  // [T, H]
  int32_t* chosen_;           // [T, top_k]
  void* workspace_;
};

}  // namespace quire
