#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/api/kv_cache.h"
#include "tensor/activations.h"

namespace quire {

// paged_attention() computes the attention of a flattened batch over the paged KV cache, with an
// online softmax in the style of FlashAttention-2 (Dao, 2023). Token t of request r has position
//   p = seq_lens[r] - (query_start_loc[r + 1] - query_start_loc[r]) + (t - query_start_loc[r]).
// It sees positions (p - window, p], or with `window_is_chunk` [p - p % window, p]. Without
// `causal` it sees all of [0, seq_lens[r]), or with a window (p - window, p + window) of them.
// `seen_ends` gives each token an end of its own. The key and value of a token are in the cache
// before the call. Scores and sums are float. With bf16, fp8 and int8 caches the query and the
// softmax weights are rounded to bf16, so that both products are bf16 dot products; with f32 and
// f16 caches nothing is rounded.
//
// A position bias is a row of floats for each head, which is added to scores that are scaled and
// capped: one float for each value of (key position - p) from -reach to reach. Keys further away
// take the float at that end of the row. A row starts and ends with kPositionBiasPadding copies of
// its first and its last float.
inline constexpr int32_t kPositionBiasPadding = 64;
inline constexpr int64_t position_bias_stride(int32_t reach) {
  return 2 * int64_t{reach} + 1 + 2 * kPositionBiasPadding;
}

// Law L4: each row is reduced over KV tiles and splits, which are cut at fixed absolute positions,
// in ascending order. The rest of the batch and the number of threads do not change that order.
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
  bool causal = true;  // false on CPUs only
  // [T] or null: token t sees the positions before seen_ends[t] instead of those up to its own, so
  // that the tokens of an image see each other. Ends are p + 1 to seq_lens[r] and never descend
  // within a request. Only causal attention on CPUs takes them.
  const int32_t* seen_ends = nullptr;
  float soft_cap = 0.0f;  // 0: none; else scores become cap * tanh(score / cap)
  // [Hq] or null: slope * |key position - p| is subtracted from scores that are scaled and capped
  // (ALiBi, Press et al., 2022).
  const float* alibi_slopes = nullptr;
  // [Hq, position_bias_stride()] or null. CPUs only, and not with ALiBi.
  const float* position_bias = nullptr;
  int32_t position_bias_reach = 0;
  const float* sinks = nullptr;  // [Hq] extra logits, which take weight but have no value; or null
  Activations out = nullptr;     // [T, Hq * D]; of a latent cache [T, Hq * latent_dim]
  void* workspace = nullptr;     // paged_attention_workspace_bytes() bytes
  // Only GPUs read the fields from here on. They cut the batch into units of work once per step and
  // window, and keep that cut in `batch_cut`; the CPU cuts the batch in each call.
  int64_t workspace_bytes = 0;
  void* batch_cut = nullptr;  // paged_attention_cut_bytes() bytes
  bool batch_is_cut = false;  // an earlier call cut it, for the same batch, heads and window
  // All calls that use this cut have the same block table, so the cut may depend on which requests
  // share blocks.
  bool cut_has_one_table = false;
  int32_t max_query_len = 0;  // the most tokens of a request in this batch; 0: not known
  int64_t total_len = 0;      // the sum of seq_lens or more; 0: not known
};
void paged_attention(Stream& stream, const PagedAttentionParams& params);

// Returns the bytes of `workspace` that are enough for every batch of at most max_tokens tokens and
// max_reqs requests, each of which has at most max_seq_len tokens.
int64_t paged_attention_workspace_bytes(const Stream& stream, int64_t max_tokens, int64_t max_reqs,
                                        int64_t max_seq_len, int32_t num_heads, int32_t head_dim);

// Returns the bytes of PagedAttentionParams::batch_cut for at most max_reqs requests.
int64_t paged_attention_cut_bytes(const Stream& stream, int64_t max_reqs);

}  // namespace quire
