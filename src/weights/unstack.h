// Tensors that hold all experts of a layer (or all residual streams of a model), cut into one tensor per
// expert, so that everything after reads experts alike however a checkpoint stores them.
#pragma once

#include "weights/files/tensor_source.h"
#include "weights/names/name_map.h"

namespace quire {

// Returns `source` with every tensor that a pattern of `names` ending with ".{e}" means (pattern
// "blk.{}.ffn_up_exps.{e}": tensor "blk.3.ffn_up_exps.weight" [X, N, K]) replaced by X tensors of
// its parts ("blk.3.ffn_up_exps.0.weight" [N, K], ...). A name without ".weight" gets it, and what
// gpt-oss joins with an underscore gets a point: "_bias", "_blocks", "_scales". Bytes stay where
// they are. A tensor whose first extent is no number of experts stays whole, and has no use then.
// With `num_experts` known, [X * N, K] is cut like [X, N, K].
TensorSource unstack_experts(const TensorSource& source, const NameMap& names,
                             int64_t num_experts = 0);

}  // namespace quire
