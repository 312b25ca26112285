// LatentBlock computes latent attention (kernels/api/latent.h) for every layer that has it, except
// attention over the cache itself: projections, norms, absorbed queries, expanded values. It owns
// no memory; its buffers lie in the decoder's arena.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/latent.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/activations.h"
#include "tensor/arena.h"

namespace quire {

// The positions of a step's tokens, and their slots in the cache.
struct LatentStep {
  const float* cos = nullptr;  // [T, P / 2]
  const float* sin = nullptr;
  const int64_t* slot_mapping = nullptr;  // [T]
  KvCacheView kv{};
  int64_t num_tokens = 0;
};

// Borrows its arguments. One thread at a time may use it.
class LatentBlock {
 public:
  // Returns the bytes that it takes from its arena.
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                              const BlockLimits& limits, const Stream& stream);

  LatentBlock(const DecoderSpec& spec, const DecoderWeights& weights, const BlockLimits& limits,
              Stream& stream, Arena& arena);

  // The methods below are called in this order for a layer. project() computes queries() from x [T,
  // E] and writes the latents to the cache.
  void project(size_t layer, ConstActivations x, const LatentStep& step, void* linear_workspace);
  ConstActivations queries() const { return queries_; }  // [T, Hq, R + P]
  // Returns the latent that the queries are computed from, if they have one, normed: the first
  // LatentSpec::query_rank columns of [T, down_rows()].
  ConstActivations query_latent() const { return down_; }
  Activations sums() { return sums_; }  // [T, Hq, R]: written by paged_attention()
  // out [T, Hq * V] = the values that the sums of latents in sums() expand to.
  void expand_values(size_t layer, Activations out, int64_t num_tokens);

 private:
  struct Heads {
    std::vector<const PackedWeight*> key_up, value_up;
  };

  // Computes the queries of the layer's heads, [T, Hq, N + P], and returns them with the stride
  // between tokens.
  ConstActivations make_queries(size_t layer, int64_t num_tokens, void* linear_workspace,
                                int64_t* stride);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  Stream& stream_;
  std::vector<Heads> heads_;  // per layer
  Activations down_;          // [T, down_rows]
  Activations query_;         // [T, Hq * (N + P)], if queries have a latent
  Activations queries_;
  Activations sums_;
  void* head_workspace_;
};

}  // namespace quire
