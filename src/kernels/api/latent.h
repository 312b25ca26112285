// Multi-head latent attention (MLA; DeepSeek-V2, arXiv 2405.04434). The cache holds one vector per
// token for all heads, [c | k_rope]: the normed latent c [R], and one rotated key. The keys and
// values of head h are Wk_h c and Wv_h c, but nothing computes them. Instead the queries absorb
// Wk_h and the outputs absorb Wv_h:
//   q_h . [Wk_h c | k_rope] = [Wk_h^T q_nope_h | q_rope_h] . [c | k_rope]
//   sum_p w_p (Wv_h c_p)    = Wv_h (sum_p w_p c_p)
// so that paged_attention() reads the latents alone (KvCacheView::latent_dim), in prefill and in
// decode alike.
#pragma once

#include <cstdint>
#include <span>

#include "device/stream.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/linear.h"
#include "tensor/activations.h"

namespace quire {

// latent_to_cache() norms the latents, rotates keys and queries, and writes [c | k_rope] of each
// token to its slot.
struct LatentToCacheParams {
  Activations latent = nullptr;  // [T, R + P]: c before its norm, and k_rope; changed in place
  int64_t latent_stride = 0;     // elements between tokens
  const float* norm_weight = nullptr;  // [R]
  float norm_eps = 1e-6f;
  ConstActivations query = nullptr;  // [T, Hq, N + P]: q_nope and q_rope of each head
  int64_t query_stride = 0;          // elements between tokens
  int32_t nope_dim = 0;              // N
  Activations absorbed = nullptr;    // [T, Hq, R + P]: writes the last P of each, q_rope rotated
  RopeStyle rope_style = RopeStyle::kInterleaved;
  const float* cos = nullptr;             // [T, P / 2], times the attention scaling
  const float* sin = nullptr;             // [T, P / 2], likewise
  const int64_t* slot_mapping = nullptr;  // [T]
  KvCacheView kv{};                       // latent_dim R, head_dim R + P
  int64_t num_tokens = 0;
  int32_t num_heads = 0;  // Hq
};
void latent_to_cache(Stream& stream, const LatentToCacheParams& params);
// Returns whether the backend has the ops of latent attention.
bool supports_latents(const Stream& stream);

// y[t, h] = W_h x[t, h]: every head has its own weight. Each output is reduced as linear() does it.
struct HeadLinearParams {
  ConstActivations x = nullptr;                       // [T, heads, K]
  int64_t x_stride = 0;                               // elements between tokens
  int64_t x_head_stride = 0;                          // elements between heads
  std::span<const PackedWeight* const> weights = {};  // [heads], all of one n and k
  Activations y = nullptr;                            // [T, heads, N]
  int64_t y_stride = 0;
  int64_t y_head_stride = 0;
  int64_t num_tokens = 0;
  void* workspace = nullptr;  // head_linear_workspace_bytes() bytes
};
void head_linear(Stream& stream, const HeadLinearParams& params);

int64_t head_linear_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                    const WeightSpec& spec);

}  // namespace quire
