// The forward pass of every decoder family: embedding, then per layer attention over the paged
// cache and MLP, then the head for chosen rows. One flattened batch per call; nothing is allocated
// after construction.
//
//   Decoder decoder(spec, weights, {.max_tokens = 2048, .max_reqs = 64, …}, stream, arena);
//   decoder.bind_cache(layers);
//   decoder.forward(inputs);
//   decoder.logits(rows, out);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "device/stream.h"
#include "kernels/api/kv_cache.h"
#include "nn/decoder_spec.h"
#include "nn/decoder_weights.h"
#include "tensor/arena.h"

namespace quire {

// Bounds of every batch, fixed for the life of a Decoder.
struct DecoderLimits {
  int64_t max_tokens = 0;  // T
  int64_t max_reqs = 0;    // R
  int64_t max_seq_len = 0;
  int64_t max_logit_rows = 0;  // per call of logits()
};

// Bytes of the buffers that a Decoder takes from its arena.
struct DecoderMemory {
  int64_t activations = 0;
  int64_t linear_workspace = 0;
  int64_t attention_workspace = 0;
  int64_t total() const { return activations + linear_workspace + attention_workspace; }
};
DecoderMemory decoder_memory(const DecoderSpec& spec, const DecoderWeights& weights,
                             const DecoderLimits& limits, const Stream& stream);

// Layers with one block table (core/kv_spec.h).
struct KvGroupInputs {
  const int64_t* slot_mapping = nullptr;  // [T]
  const int32_t* block_table = nullptr;   // [R, max_blocks]
  int64_t max_blocks = 0;
};

struct ForwardInputs {
  int64_t num_tokens = 0;                    // T >= 1
  int32_t num_reqs = 0;                      // R >= 1
  const TokenId* input_ids = nullptr;        // [T], each in [0, V)
  const int32_t* positions = nullptr;        // [T]
  const int32_t* query_start_loc = nullptr;  // [R + 1]
  const int32_t* seq_lens = nullptr;         // [R]
  std::span<const KvGroupInputs> groups = {};
};

// The cache of one layer and the group whose block table leads to it.
struct LayerCache {
  KvCacheView view;
  int32_t group = 0;
};

// Borrows spec, weights, stream and arena. One thread at a time.
class Decoder {
 public:
  Decoder(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
          Stream& stream, Arena& arena);

  void bind_cache(std::vector<LayerCache> layers);  // one per layer

  // Leaves the hidden states of the batch ready for logits(), until the next call.
  void forward(const ForwardInputs& inputs);

  // out [rows.size(), V]: raw logits of the given tokens of the last forward(); at most
  // max_logit_rows.
  void logits(std::span<const int32_t> rows, float* out);

 private:
  // Tokens that go through the MLP at once: its buffers are the widest, and larger groups gain
  // nothing.
  static constexpr int64_t kMlpTokens = 512;
  friend DecoderMemory decoder_memory(const DecoderSpec&, const DecoderWeights&,
                                      const DecoderLimits&, const Stream&);

  void rope_step(const ForwardInputs& inputs);
  void attention_block(const ForwardInputs& inputs, size_t layer);
  void mlp_block(size_t layer, int64_t num_tokens);
  void run_norm(const NormWeights& norm, const float* x, float* out, int64_t num_tokens);
  void add_normed(const NormWeights& norm, const float* x, float* add_to, int64_t num_tokens);
  void run_linear(const LinearWeights& weights, const float* x, float* y, int64_t num_tokens,
                  bool accumulate);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  DecoderLimits limits_;
  Stream& stream_;
  std::vector<LayerCache> cache_;
  float* hidden_;                  // [T, E]
  float* normed_;                  // [T, E]
  float* block_out_;               // [T, E], with sandwich norms
  float* qkv_;                     // [T, (Hq + 2 Hkv) * D]
  float* attention_;               // [T, Hq * D]
  float* gate_up_;                 // [kMlpTokens, 2 F] or [kMlpTokens, F]
  float* ffn_;                     // [kMlpTokens, F]; gate_up_ itself without a gate
  std::vector<float*> cos_, sin_;  // per rope [T, rotary_dim / 2]
  double* rope_scratch_;
  void* linear_workspace_;
  void* attention_workspace_;
};

}  // namespace quire
