// What each part of a model takes of memory. All stages of a pipeline have the same KV cache blocks:
// every block of a request is on each of them, for its own layers.
#pragma once

#include <cstdint>
#include <span>

#include "core/kv_spec.h"
#include "exec/kv_layout.h"
#include "exec/model_plan.h"
#include "exec/model_runner.h"

namespace quire {

// Returns the ratio of the block bytes of `part` to those of `whole`, for the pool where it is
// largest.
double share_of_blocks(const KvSpec& part, const KvSpec& whole);

// Returns a part's bytes, rounded up, given its share_of_blocks() and the bytes of the whole.
int64_t bytes_of_share(int64_t whole_bytes, double share);

// A part's blocks, and the memory that it has for them.
struct PartRoom {
  KvSpec spec;
  int64_t available_bytes = 0;
};
// Returns the memory of the part with the least room for blocks, converted to bytes of the blocks of
// `whole`. A part that keeps no blocks is no limit; if no part keeps any, returns the least memory
// as it is. Expects one part or more.
int64_t least_room(std::span<const PartRoom> parts, const KvSpec& whole);

// Returns the options of one of `count` parts on the same machine, which divide its threads, memory
// nodes and memory. The bytes for the KV cache are not divided, since parts may need unequal shares.
ModelRunnerOptions part_of_machine(const ModelRunnerOptions& whole, int index, int count);

// Returns the cache layout of the first of `num_ranks` ranks, for the blocks of `kept` layers.
// Ranks group layers by the bytes that each layer keeps, so its groups may differ from those of the
// whole model.
KvLayout layout_of(const ModelPlan& plan, int num_ranks, const RowRange& kept);

// Checks whether the model, of which `plan` is the plan of the whole, can be divided into
// `num_stages`. A stage cannot check this itself, since it ignores the parts that other stages
// have. kInvalidArgument, kUnimplemented: it cannot be divided so.
Status check_pipeline(const ModelPlan& plan, int num_stages);

}  // namespace quire
