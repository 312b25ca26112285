// SharedBlockSpec is a transformer block in front of a layer's mixer with a state, whose weights
// several layers use (Zamba2), as plain data. It works on CPUs alone.
#pragma once

#include <cstdint>

namespace quire {

// Let x be the residual stream, x0 the embedding, A the layer's attention
// (AttentionSpec::reads_pairs) and M its MLP. The block computes y = out(M(N'(A(N([x, x0]))))), and
// the mixer with a state reads x + y in place of x. Neither A nor M adds to the residual stream.
// Uses of one block have an `out` of their own, and updates of low rank, W + B C, of its input
// matrices.
struct SharedBlockSpec {
  int32_t weights_layer = -1;  // of the first use, whose weights they are; -1: there is no block
  int32_t use = 0;             // which of the model's layers with such a block, from 0
  int64_t update_rank = 0;     // r: of the updates
  bool updates_attention = false;  // of queries, keys and values too, not of the MLP alone

  bool any() const { return weights_layer >= 0; }
};

}  // namespace quire
