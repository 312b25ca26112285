// unstack_experts() cuts tensors that hold all experts of a layer (or all residual streams of a
// model) into one tensor per expert, so that all later code handles one layout of experts.
#pragma once

#include "weights/files/tensor_source.h"
#include "weights/names/name_map.h"

namespace quire {

// Returns `source` with every tensor [X, N, K] that a pattern of `names` ending with ".{e}" names
// (pattern "blk.{}.ffn_up_exps.{e}": tensor "blk.3.ffn_up_exps.weight") replaced by X tensors
// ("blk.3.ffn_up_exps.0.weight" [N, K], …). A name without ".weight" gets it, and the underscore
// that gpt-oss writes before "bias", "blocks" and "scales" becomes a point. Bytes stay where they
// are. A tensor whose first extent cannot be a number of experts stays whole and is then not used.
// If `num_experts` is given, [X * N, K] is cut like [X, N, K].
TensorSource unstack_experts(const TensorSource& source, const NameMap& names,
                             int64_t num_experts = 0);

}  // namespace quire
