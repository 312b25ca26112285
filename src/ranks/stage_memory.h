// What a stage of a pipeline takes of the memory for blocks of cache, which all stages share out
// alike: every block of a request is on each of them, for its own layers.
#pragma once

#include "core/kv_spec.h"
#include "exec/kv_layout.h"
#include "exec/model_plan.h"

namespace quire {

// Returns the share of the bytes of blocks of `whole` that `part` takes, in the pool where it is
// greatest.
double share_of_blocks(const KvSpec& part, const KvSpec& whole);

// Returns the cache of the first of `num_ranks`, with the blocks of `kept` layers. Ranks group
// layers by the bytes that each of them keeps, so the groups may be others than those of the whole.
KvLayout layout_of(const ModelPlan& plan, int num_ranks, const RowRange& kept);

// kInvalidArgument, kUnimplemented: so many stages cannot share the model, which `plan` is of as a
// whole. A stage itself reads over what others have.
Status check_pipeline(const ModelPlan& plan, int num_stages);

}  // namespace quire
