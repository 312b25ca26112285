#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/api/kv_cache.h"
#include "tensor/activations.h"

namespace quire {

// Attention of a flattened batch over the paged cache (FlashAttention-2 style online softmax, Dao
// 2023). Token t of request r stands at position p = seq_lens[r] - (query_start_loc[r + 1] -
// query_start_loc[r]) + (t - query_start_loc[r]) and sees positions (p - window, p], or with
// `window_is_chunk` [p - p % window, p]; without `causal` it sees all of [0, seq_lens[r]), or with a
// window (p - window, p + window) of them. With
// `seen_ends` those up to an end of its own. Its key and value are already in the cache. Scores and sums are float. With a bf16 cache the query and the softmax weights are rounded to bf16, so that
// both products are bf16 dot products; with f32 and f16 caches nothing is rounded.
//
// What is added to the scores of a head, once scaled and capped, by where the key stands: a row of biases
// for key position - p from -reach to reach, with its ends repeated kPositionBiasPadding times, which
// hold beyond them.
inline constexpr int32_t kPositionBiasPadding = 64;
inline constexpr int64_t position_bias_stride(int32_t reach) {
  return 2 * int64_t{reach} + 1 + 2 * kPositionBiasPadding;
}

// Law L4: a row is reduced over KV tiles and splits cut at fixed absolute positions, in ascending
// order, whatever else is in the batch and however many threads run.
struct PagedAttentionParams {
  ConstActivations query = nullptr;  // [T, Hq, D]
  int64_t query_stride = 0;  // elements between tokens (the query may be part of a fused qkv row)
  KvCacheView kv{};
  const int32_t* query_start_loc = nullptr;  // [R + 1]
  const int32_t* seq_lens = nullptr;         // [R], computed + scheduled
  const int32_t* block_table = nullptr;      // [R, max_blocks]
  int64_t max_blocks = 0;
  int32_t num_reqs = 0;        // R
  int32_t num_heads = 0;       // Hq, a multiple of Hkv
  float scale = 1.0f;          // of scores, > 0
  int32_t sliding_window = 0;  // 0: none
  bool window_is_chunk = false;
  bool causal = true;  // CPUs alone run without it
  // [T], or null: token t sees positions before seen_ends[t] instead of those up to its own: p + 1 to
  // seq_lens[r], and of a request never less than the token before it (the tokens of an image see each
  // other). Causal attention on CPUs alone.
  const int32_t* seen_ends = nullptr;
  float soft_cap = 0.0f;  // 0: none; else scores become cap * tanh(score / cap)
  // [Hq], or null: slope * |key position - p| is taken from scores once scaled and capped (ALiBi,
  // Press et al., 2022).
  const float* alibi_slopes = nullptr;
  const float* position_bias =
      nullptr;  // [Hq, position_bias_stride()], or null. CPUs alone, not with ALiBi
  int32_t position_bias_reach = 0;
  const float* sinks = nullptr;  // [Hq] extra logits that take weight but add no value, or null
  Activations out = nullptr;     // [T, Hq * D]; of a latent cache [T, Hq * latent_dim]
  void* workspace = nullptr;     // paged_attention_workspace_bytes() bytes
  // For GPUs, which cut the batch into work once per step and window; the CPU cuts it in each call.
  int64_t workspace_bytes = 0;
  void* batch_cut = nullptr;  // paged_attention_cut_bytes() bytes
  bool batch_is_cut = false;  // by an earlier call for the same batch, heads and window
  // All calls of this cut have the same block table, so that the cut may depend on who shares blocks.
  bool cut_has_one_table = false;
  int32_t max_query_len = 0;  // of any request; 0: not known
  int64_t total_len = 0;      // at least the sum of seq_lens; 0: not known
};
void paged_attention(Stream& stream, const PagedAttentionParams& params);

// Returns what is enough for every batch of at most max_tokens tokens and max_reqs requests, of at
// most max_seq_len tokens each.
int64_t paged_attention_workspace_bytes(const Stream& stream, int64_t max_tokens, int64_t max_reqs,
                                        int64_t max_seq_len, int32_t num_heads, int32_t head_dim);

// Of PagedAttentionParams::batch_cut.
int64_t paged_attention_cut_bytes(const Stream& stream, int64_t max_reqs);

}  // namespace quire
