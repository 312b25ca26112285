// IndexSpec describes the indexer of sparse attention (kernels/api/sparse_attention.h), as plain
// data.
#pragma once

#include <cstdint>

#include "kernels/api/kv_cache.h"

namespace quire {

struct IndexSpec {
  int32_t top_k = 0;      // tokens that a query attends to; 0: all that it sees
  int32_t num_heads = 0;  // H; 0: reads the choice of the nearest earlier layer that has heads
  int32_t head_dim = 0;   // D, of queries and of the one key of a token
  RopeStyle rope_style = RopeStyle::kNeox;  // of the first LatentSpec::rope_dim dims
  float norm_eps = 1e-6f;                   // of the keys' LayerNorm

  bool any() const { return top_k > 0; }
  bool chooses() const { return any() && num_heads > 0; }
};

}  // namespace quire
