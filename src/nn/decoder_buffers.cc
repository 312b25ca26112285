#include "nn/decoder_buffers.h"

#include <algorithm>

#include "kernels/api/attention.h"
#include "tensor/arena.h"

namespace quire {

BufferSizes::BufferSizes(const DecoderSpec& spec, const DecoderLimits& limits) {
  const int64_t tokens = limits.max_tokens;
  const int64_t mlp_tokens = std::min(tokens, limits.mlp_tokens);
  element_bytes = size_bytes(limits.activation_type);
  hidden = tokens * spec.hidden_size;
  normed = std::max(tokens, limits.max_logit_rows) * spec.hidden_size;
  block_out = spec.block.changes_outputs() || spec.cross.gated ? hidden : 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.ffn.has_output_norm) block_out = hidden;
    if (!layer.attention.latent.any()) qkv = std::max(qkv, tokens * layer.attention.qkv_rows());
    attention = std::max(attention, tokens * layer.attention.output_size());
    gate_up = std::max(gate_up, mlp_tokens * layer.ffn.gate_up_rows());
    if (layer.ffn.gated) ffn = std::max(ffn, mlp_tokens * layer.ffn.intermediate_size);
    if (!spec.clamps_products) continue;
    clamped = std::max({clamped, tokens * std::max(spec.hidden_size, layer.attention.output_size()),
                        mlp_tokens * layer.ffn.intermediate_size});
  }
  for (const RopeSpec& one : spec.ropes) {
    rope.push_back(tokens * (one.rotary_dim / 2));
    rope_scratch = std::max<int64_t>(rope_scratch, one.rotary_dim / 2);
  }
  query_scale = spec.query_scale ? tokens : 0;
  alibi_slopes = std::ssize(spec.alibi_slopes);
  if (spec.relative_bias.any()) {
    position_bias = spec.layers.front().attention.num_heads *
                    position_bias_stride(spec.relative_bias.max_distance) *
                    (spec.relative_bias.per_layer ? std::ssize(spec.layers) : 1);
  }
}

int64_t BufferSizes::bytes() const {
  int64_t sum = Arena::padded(hidden * 4) + Arena::padded(clamped * 4);
  for (const int64_t count : {normed, block_out, qkv, attention, gate_up, ffn})
    sum += Arena::padded(count * element_bytes);
  for (const int64_t count : rope) sum += 2 * Arena::padded(count * 4);
  return sum + Arena::padded(rope_scratch * 8) + Arena::padded(query_scale * 4) +
         Arena::padded(position_bias * 4) + Arena::padded(alibi_slopes * 4);
}

AttentionCutKind cut_kind(const AttentionSpec& attention) {
  return {attention.sliding_window, attention.num_heads, attention.num_kv_heads, attention.head_dim,
          attention.window_is_chunk};
}

std::vector<AttentionCutKind> cut_kinds(const DecoderSpec& spec) {
  std::vector<AttentionCutKind> kinds;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attention.any()) kinds.push_back(cut_kind(layer.attention));
  }
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

BatchSizes batch_sizes(const DecoderSpec& spec, const DecoderLimits& limits) {
  return {.max_tokens = limits.max_tokens,
          .width = spec.hidden_size,
          .norm_eps = spec.norm_eps,
          .activation_type = limits.activation_type};
}

int64_t attention_workspace_bytes(const DecoderSpec& spec, const DecoderLimits& limits,
                                  const Stream& stream) {
  int64_t bytes = 0;
  for (const AttentionCutKind& kind : cut_kinds(spec)) {
    bytes = std::max(
        bytes, paged_attention_workspace_bytes(stream, limits.max_tokens, limits.max_reqs,
                                               limits.max_seq_len, kind.num_heads, kind.head_dim));
  }
  return Arena::padded(bytes);
}

}  // namespace quire
