// How much of the memory for KV cache blocks each stage of a pipeline takes. All stages have the
// same blocks: every block of a request is on each of them, for its own layers.
#pragma once

#include "core/kv_spec.h"
#include "exec/kv_layout.h"
#include "exec/model_plan.h"

namespace quire {

// Returns the ratio of the block bytes of `part` to those of `whole`, for the pool where it is
// largest.
double share_of_blocks(const KvSpec& part, const KvSpec& whole);

// Returns the cache layout of the first of `num_ranks` ranks, for the blocks of `kept` layers.
// Ranks group layers by the bytes that each layer keeps, so its groups may differ from those of the
// whole model.
KvLayout layout_of(const ModelPlan& plan, int num_ranks, const RowRange& kept);

// Checks whether the model, of which `plan` is the plan of the whole, can be divided into
// `num_stages`. A stage cannot check this itself, since it ignores the parts that other stages
// have. kInvalidArgument, kUnimplemented: it cannot be divided so.
Status check_pipeline(const ModelPlan& plan, int num_stages);

}  // namespace quire
