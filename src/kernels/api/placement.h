// These functions keep memory near the threads that read it. On machines with several memory nodes
// the system puts a page on the node of the thread that first touches it.
#pragma once

#include "base/threads/thread_team.h"
#include "kernels/api/linear.h"

namespace quire {

// A weight's outputs are `num_blocks` blocks of as many each, which threads read side by side: two
// of a product that is gated (LinearGate).
struct WeightBlock {
  int index = 0;
  int num_blocks = 1;
};

// Returns the bytes of a block of a packed weight that are a thread's own part in linear(): whole
// panels, and for the last thread in the last block what lies behind them. The ranges of all
// threads are the block, in order, and those of all blocks are the weight.
WorkRange weight_bytes_of(const WeightSpec& spec, WeightBlock block, int thread, int num_threads);

// Touches every page of a weight's memory, before it is packed, on the thread that will read it.
// What is there stays. One thread at a time may call it, with a stream of the host.
void touch_weight(Stream& stream, const PackedWeight& weight, int num_blocks);

}  // namespace quire
