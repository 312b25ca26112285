// The latent attention of every layer that has it (kernels/api/latent.h), but for the walk over the
// cache: projections, norms, queries absorbed, values expanded. Owns no memory; its buffers lie in
// the decoder's arena.
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

// This says where the tokens of a step stand.
struct LatentStep {
  const float* cos = nullptr;  // [T, P / 2]
  const float* sin = nullptr;
  const int64_t* slot_mapping = nullptr;  // [T]
  KvCacheView kv{};
  int64_t num_tokens = 0;
};

// Borrows what it is made of. One thread at a time may use it.
class LatentBlock {
 public:
  // What an object takes from its arena.
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                              const BlockLimits& limits, const Stream& stream);

  LatentBlock(const DecoderSpec& spec, const DecoderWeights& weights, const BlockLimits& limits,
              Stream& stream, Arena& arena);

  // The parts of a layer's attention come in this order. This first one brings x [T, E] to
  // queries() and the cache.
  void project(size_t layer, ConstActivations x, const LatentStep& step, void* linear_workspace);
  ConstActivations queries() const { return queries_; }  // [T, Hq, R + P]
  // What queries are made of, where they have a latent, normed: [T, down_rows()], of which the first
  // LatentSpec::query_rank are it.
  ConstActivations query_latent() const { return down_; }
  Activations sums() { return sums_; }  // [T, Hq, R]: paged_attention() writes them
  // out [T, Hq * V] = the values that sums() stand for.
  void expand_values(size_t layer, Activations out, int64_t num_tokens);

 private:
  struct Heads {
    std::vector<const PackedWeight*> key_up, value_up;
  };

  // The queries of the layer's heads, [T, Hq, N + P], and how far tokens are apart.
  ConstActivations make_queries(size_t layer, int64_t num_tokens, void* linear_workspace,
                                int64_t* stride);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  Stream& stream_;
  std::vector<Heads> heads_;  // per layer
  Activations down_;          // [T, down_rows]
  Activations query_;         // [T, Hq * (N + P)], of queries with a latent
  Activations queries_;
  Activations sums_;
  void* head_workspace_;
};

}  // namespace quire
