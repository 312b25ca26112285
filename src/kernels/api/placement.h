// These functions place the pages of a weight near the threads that read them. On machines with
// several memory nodes the system puts a page on the node of the thread that first touches it.
#pragma once

#include "base/threads/thread_team.h"
#include "kernels/api/linear.h"

namespace quire {

// A block is one of `num_blocks` equal ranges of a weight's outputs, which threads read side by
// side. The weight of a gated product (LinearGate) has two blocks, every other weight has one.
struct WeightBlock {
  int index = 0;
  int num_blocks = 1;
};

// Returns the range of bytes of a block of a packed weight that is a thread's own part in linear().
// A range is whole panels; that of the last thread in the last block also has the bytes after the
// panels. The ranges of all threads, in order, make up the block, and the blocks make up the
// weight.
WorkRange weight_bytes_of(const WeightSpec& spec, WeightBlock block, int thread, int num_threads);

// Touches every page of a weight's memory on the thread that will read it. It must be called before
// the weight is packed, by one thread at a time, with a stream of the host. The contents stay as
// they are.
void touch_weight(Stream& stream, const PackedWeight& weight, int num_blocks);

}  // namespace quire
