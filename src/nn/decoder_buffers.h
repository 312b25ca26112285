// These are the bounds of a decoder's batches and the sizes of its buffers within them, which plan
// its memory and then allocate it.
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
  // Between ops; the residual stream and the logits are always float32.
  DType activation_type = DType::kF32;
  // Tokens that go through the MLP at once: its buffers are the widest. On a CPU larger groups gain
  // nothing; a GPU wants all.
  int64_t mlp_tokens = 512;
  LoraLimits lora = {};
};

// Of the blocks that a layer consists of, beside attention.
struct BlockLimits {
  int64_t max_tokens = 0;               // of a call
  DType activation_type = DType::kF32;  // DecoderLimits::activation_type
};

// Every activation buffer has so many elements, with room for the widest layer.
struct BufferSizes {
  int64_t hidden = 0, normed = 0, block_out = 0, qkv = 0, attention = 0, gate_up = 0, ffn = 0;
  int64_t clamped = 0;  // float32
  std::vector<int64_t> rope;
  int64_t rope_scratch = 0, query_scale = 0, position_bias = 0, alibi_slopes = 0;
  int64_t element_bytes = 4;  // of the first line but for hidden

  BufferSizes(const DecoderSpec& spec, const DecoderLimits& limits);
  int64_t bytes() const;
};

// What decides how attention cuts a batch: layers of one kind share the cut.
struct AttentionCutKind {
  int32_t sliding_window, num_heads, num_kv_heads, head_dim;
  bool window_is_chunk;
  friend auto operator<=>(const AttentionCutKind&, const AttentionCutKind&) = default;
};
AttentionCutKind cut_kind(const AttentionSpec& attention);
// Returns the kinds of a model's layers, each once, in ascending order.
std::vector<AttentionCutKind> cut_kinds(const DecoderSpec& spec);

BatchSizes batch_sizes(const DecoderSpec& spec, const DecoderLimits& limits);

// What paged_attention() needs for any layer.
int64_t attention_workspace_bytes(const DecoderSpec& spec, const DecoderLimits& limits,
                                  const Stream& stream);

}  // namespace quire
