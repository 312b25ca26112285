// CrossBlock computes the attention of every layer to a source: keys and values made of an
// encoder's rows, once, and the queries of each step's tokens over them. It owns no memory; its
// buffers lie in the arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/stream.h"
#include "kernels/api/kv_cache.h"
#include "nn/decoder_buffers.h"
#include "nn/decoder_spec.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"

namespace quire {

// Where the queries of CrossSpec::alignment_heads of some tokens of a step are wanted.
struct QueryCopy {
  int64_t first_token = 0;
  int64_t num_tokens = 0;
  float* out = nullptr;  // [num_tokens, alignment heads, D]
};

// Runs of a step's tokens that look at one source, each of at most as many tokens as the source has
// rows. All arrays lie where the stream's device reads them.
struct CrossSegments {
  // With CrossSpec::gated, [T] each: whether a token looks at its run's source, and whether what it looks
  // at is shown to it, so that the layer's MLP counts too. Whether any does.
  const uint8_t* reads = nullptr;
  const uint8_t* shown = nullptr;
  bool any_reads = false;
  bool any_shown = false;
  int32_t count = 0;
  int32_t max_len = 0;                   // tokens of the longest
  const int32_t* start_loc = nullptr;    // [count + 1]
  const int32_t* source_lens = nullptr;  // [count]
  const int32_t* block_table = nullptr;  // [count, max_blocks]
  int64_t max_blocks = 0;
  std::span<const QueryCopy> query_copies = {};
};

// Borrows what it is made of. One thread at a time may use it. It works on CPUs alone.
class CrossBlock {
 public:
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                              const DecoderLimits& limits, const Stream& stream);
  // Returns how many segments a step has at most.
  static int64_t max_segments(const DecoderLimits& limits) { return limits.max_tokens; }

  // `layers` say where the keys and values of each layer lie that reads a source.
  CrossBlock(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
             std::vector<KvCacheView> layers, Stream& stream, Arena& arena);

  // Writes the keys and values of rows [count, source_size], in all layers that read them, to slots
  // [count].
  void write(const float* rows, const int64_t* slots, int64_t count);
  // hidden [T, E] += what the tokens of layer `index` read of their sources, gated or not; or a norm of
  // the sum, as the model's blocks are.
  void run(size_t index, const CrossSegments& segments, float* hidden, int64_t num_tokens);

 private:
  void copy_queries(size_t index, std::span<const QueryCopy> copies) const;
  // Adds what heads_ come to.
  void add_output(const CrossWeights& weights, const CrossSegments& segments, float* hidden,
                  int64_t num_tokens);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  Stream& stream_;
  std::vector<KvCacheView> layers_;
  float* normed_;     // [T, E]
  float* queries_;    // [T, Hq * D]
  float* heads_;      // [T, Hq * D]
  float* key_value_;  // [kRowsAtOnce, 2 * Hkv * D]
  void* linear_workspace_;
  void* attention_workspace_;
  int64_t attention_workspace_bytes_;
  void* cut_;
};

}  // namespace quire
