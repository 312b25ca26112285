// merge_blocks() makes a fleet store its KV in larger blocks, where that changes results very
// little. With long prompts, a simulation spends most of its time on blocks.
#pragma once

#include <cstdint>

#include "sim/fleet/fleet.h"
#include "sim/workload/workload.h"

namespace quire::sim {

// Returns how many blocks may be merged into one, a power of two. The tokens that are then lost in
// partly filled blocks, and in prefixes that end inside a block, are at most `most_error` of all.
int32_t mergeable_blocks(const Workload& workload, int32_t block_size, double most_error = 0.01);

// Enlarges the blocks of all pools by the same factor, which the blocks of each allow, and returns
// it. Returns 1 if results
// would change: with pictures, tiers, transfers, windows, states, reserved KV, or a number of
// blocks that the user chose.
int32_t merge_blocks(const Workload& workload, FleetSpec& spec);

}  // namespace quire::sim
