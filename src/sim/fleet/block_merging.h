// merge_blocks() makes a fleet keep its KV in larger blocks, where that changes next to nothing: with
// long prompts a simulation spends its time on blocks.
#pragma once

#include <cstdint>

#include "sim/fleet/fleet.h"
#include "sim/workload/workload.h"

namespace quire::sim {

// Returns how many blocks may become one, a power of two. Blocks that are filled in part and
// prefixes that are cut at blocks are then at most `most_error` of all tokens.
int32_t mergeable_blocks(const Workload& workload, int32_t block_size, double most_error = 0.01);

// Sets the blocks of all pools; returns how many became one. Tiers, transfers, windows, states and
// a number of blocks that somebody asked for keep theirs.
int32_t merge_blocks(const Workload& workload, FleetSpec& spec);

}  // namespace quire::sim
