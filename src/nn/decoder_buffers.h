// The bounds of a decoder's batches and the sizes of its buffers within them, which are used to
// plan its memory and then to allocate it.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "device/stream.h"
#include "nn/decoder_spec.h"
#include "nn/spec/batch_sizes.h"
#include "nn/spec/lora_limits.h"

namespace quire {

// Bounds of every batch, fixed for the life of a Decoder.
struct DecoderLimits {
  int64_t max_tokens = 0;  // T
  int64_t max_reqs = 0;    // R
  int64_t max_seq_len = 0;
  int64_t max_logit_rows = 0;                    // per call of logits()
  static constexpr int64_t kMaxPooledRows = 64;  // per call of pooling_layer()
  // The type of activations between ops; the residual stream and the logits are always float32.
  DType activation_type = DType::kF32;
  // Tokens that go through the MLP at once, because its buffers are the widest. On a CPU larger
  // groups gain nothing; a GPU takes all tokens at once.
  int64_t mlp_tokens = 512;
  LoraLimits lora = {};
};

// Bounds of the blocks that a layer consists of, except attention.
struct BlockLimits {
  int64_t max_tokens = 0;               // of a call
  DType activation_type = DType::kF32;  // DecoderLimits::activation_type
};

// The elements of each activation buffer, with room for the widest layer.
struct BufferSizes {
  int64_t hidden = 0, normed = 0, block_out = 0, qkv = 0, attention = 0, gate_up = 0, ffn = 0;
  int64_t clamped = 0;  // float32
  std::vector<int64_t> rope;
  int64_t rope_scratch = 0, query_scale = 0, position_bias = 0, alibi_slopes = 0;
  int64_t element_bytes = 4;  // of the buffers on the first line but hidden

  BufferSizes(const DecoderSpec& spec, const DecoderLimits& limits);
  int64_t bytes() const;
};

// The properties that decide how attention cuts a batch: layers of one kind share the cut.
struct AttentionCutKind {
  int32_t sliding_window, num_heads, num_kv_heads, head_dim;
  bool window_is_chunk;
  friend auto operator<=>(const AttentionCutKind&, const AttentionCutKind&) = default;
};
AttentionCutKind cut_kind(const AttentionSpec& attention);
// Returns the kinds of a model's layers, each once, in ascending order.
std::vector<AttentionCutKind> cut_kinds(const DecoderSpec& spec);

BatchSizes batch_sizes(const DecoderSpec& spec, const DecoderLimits& limits);

// Returns the workspace of paged_attention() that suffices for every layer.
int64_t attention_workspace_bytes(const DecoderSpec& spec, const DecoderLimits& limits,
                                  const Stream& stream);

}  // namespace quire
