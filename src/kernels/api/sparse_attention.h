// Sparse attention over latents (DSA; DeepSeek-V3.2). An indexer of small heads scores every token
// s that query t sees,
//   score(t, s) = sum_h weights[t, h] * relu(query[t, h] . key[s]),
// and attention reads only the latents of the top_k tokens with the best scores. Of equal scores
// the lower position wins. The choice depends on the token's own row and on the cache before it,
// and not on the rest of the batch or the number of threads (law L4).
//
// The cache of index keys and the cache of latents are both in KvOrder::kTokenMajor, because both
// are read by rows.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/api/attention.h"
#include "kernels/api/kv_cache.h"
#include "tensor/activations.h"

namespace quire {

// index_to_cache() norms index keys (LayerNorm), rotates them and writes them to their slots. It
// also rotates the index queries.
struct IndexToCacheParams {
  Activations key = nullptr;           // [T, D], in place
  int64_t key_stride = 0;              // elements between tokens
  const float* norm_weight = nullptr;  // [D]
  const float* norm_bias = nullptr;    // [D]
  float norm_eps = 1e-6f;
  Activations query = nullptr;  // [T, H, D], in place
  int64_t query_stride = 0;     // elements between tokens
  RopeStyle rope_style = RopeStyle::kNeox;
  int32_t rotary_dim = 0;                 // P <= D, even: the first dims of a head
  const float* cos = nullptr;             // [T, P / 2]
  const float* sin = nullptr;             // [T, P / 2]
  const int64_t* slot_mapping = nullptr;  // [T]
  KvCacheView keys{};                     // one head of D dims, and no values
  int64_t num_tokens = 0;
  int32_t num_heads = 0;  // H
};
void index_to_cache(Stream& stream, const IndexToCacheParams& params);
// Returns whether the backend has sparse attention.
bool supports_sparse_attention(const Stream& stream);

// Batches are laid out as in PagedAttentionParams.
struct ChooseTokensParams {
  ConstActivations query = nullptr;          // [T, H, D], rotated
  int64_t query_stride = 0;                  // elements between tokens
  ConstActivations weights = nullptr;        // [T, H]
  int64_t weights_stride = 0;                // elements between tokens
  KvCacheView keys{};                        // the index keys of all tokens seen
  const int32_t* query_start_loc = nullptr;  // [R + 1]
  const int32_t* seq_lens = nullptr;         // [R]
  const int32_t* block_table = nullptr;      // [R, max_blocks]
  int64_t max_blocks = 0;
  int32_t num_reqs = 0;       // R
  int32_t num_heads = 0;      // H
  int32_t top_k = 0;          // K
  int32_t* chosen = nullptr;  // [T, K]: positions, ascending; the first num_chosen() of a row
  void* workspace = nullptr;  // choose_tokens_workspace_bytes() bytes
};
void choose_tokens(Stream& stream, const ChooseTokensParams& params);

// Returns the bytes of ChooseTokensParams::workspace for sequences of at most max_seq_len tokens.
int64_t choose_tokens_workspace_bytes(const Stream& stream, int64_t max_seq_len, int32_t num_heads,
                                      int32_t head_dim);

// Returns how many tokens the token at `position` chooses.
constexpr int32_t num_chosen(int32_t position, int32_t top_k) {
  return position < top_k ? position + 1 : top_k;
}

// Each token attends to the positions in its row of `chosen`, in ascending order. The result is bit
// for bit that of paged_attention() over a cache that holds only these tokens.
struct SparseAttentionParams {
  // It must be causal and have no windows, biases or sinks. `kv` is a latent cache, and `workspace`
  // has sparse_attention_workspace_bytes() bytes.
  PagedAttentionParams attention{};
  const int32_t* chosen = nullptr;  // [T, K], from choose_tokens()
  int32_t top_k = 0;                // K
};
void sparse_attention(Stream& stream, const SparseAttentionParams& params);

int64_t sparse_attention_workspace_bytes(const Stream& stream, DType cache, int32_t num_heads,
                                         int32_t head_dim, int32_t top_k);

}  // namespace quire
