// SharedBlockSpec describes a transformer block before a layer's mixer with a state, whose weights
// several layers use (Zamba2), as plain data. It works on CPUs only.
#pragma once

#include <cstdint>

namespace quire {

// Let x be the residual stream, x0 the embedding, A the layer's attention
// (AttentionSpec::reads_pairs) and M its MLP. The block computes y = out(M(N'(A(N([x, x0]))))), and
// the mixer with a state reads x + y instead of x. Neither A nor M adds to the residual stream.
// Each layer that uses a block has its own `out`, and its own low-rank updates of the block's input
// matrices, W + B C.
struct SharedBlockSpec {
  // The first layer that uses the block, which has its weights; -1: no block.
  int32_t weights_layer = -1;
  int32_t use = 0;                 // counts the layers with a block, from 0
  int64_t update_rank = 0;         // r, of the updates
  bool updates_attention = false;  // the updates cover queries, keys and values, not only the MLP

  bool any() const { return weights_layer >= 0; }
};

}  // namespace quire
