// CrossBlock computes the cross-attention of every layer: it computes the keys and values of an
// encoder's rows once, and attention of each step's queries to them. It owns no memory; its buffers
// lie in the arena.
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

// A place to which the queries of CrossSpec::alignment_heads are copied for some tokens of a step.
struct QueryCopy {
  int64_t first_token = 0;
  int64_t num_tokens = 0;
  float* out = nullptr;  // [num_tokens, alignment heads, D]
};

// Runs of a step's tokens that attend to one source. A run has at most as many tokens as its source
// has rows. All arrays are in memory of the stream's device.
struct CrossSegments {
  // For CrossSpec::gated, [T] each: whether a token attends to its run's source, and whether the
  // source is also shown to it, in which case the output of the layer's MLP counts for it.
  // any_reads and any_shown say whether this is true of at least one token.
  const uint8_t* reads = nullptr;
  const uint8_t* shown = nullptr;
  bool any_reads = false;
  bool any_shown = false;
  int32_t count = 0;
  int32_t max_len = 0;                   // tokens of the longest run
  const int32_t* start_loc = nullptr;    // [count + 1]
  const int32_t* source_lens = nullptr;  // [count]
  const int32_t* block_table = nullptr;  // [count, max_blocks]
  int64_t max_blocks = 0;
  std::span<const QueryCopy> query_copies = {};
};

// Borrows its arguments. One thread at a time may use it. It works on CPUs only.
class CrossBlock {
 public:
  static int64_t memory_bytes(const DecoderSpec& spec, const DecoderWeights& weights,
                              const DecoderLimits& limits, const Stream& stream);
  // Returns the most segments that a step has.
  static int64_t max_segments(const DecoderLimits& limits) { return limits.max_tokens; }

  // `layers` are the caches of the layers that read a source.
  CrossBlock(const DecoderSpec& spec, const DecoderWeights& weights, const DecoderLimits& limits,
             std::vector<KvCacheView> layers, Stream& stream, Arena& arena);

  // Computes the keys and values of rows [count, source_size] for all layers that read them, and
  // writes them to slots [count].
  void write(const float* rows, const int64_t* slots, int64_t count);
  // hidden [T, E] += the output of layer `index`'s attention to the sources, gated if the spec says
  // so; or the norm of the sum, depending on the model's BlockStyle.
  void run(size_t index, const CrossSegments& segments, float* hidden, int64_t num_tokens);

 private:
  void copy_queries(size_t index, std::span<const QueryCopy> copies) const;
  // Projects heads_ and adds the result to `hidden`.
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
