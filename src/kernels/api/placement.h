// Memory near the threads that read it. On machines with several memory nodes the system puts a
// page on the node of the thread that first touches it.
#pragma once

#include "base/thread_team.h"
#include "kernels/api/linear.h"

namespace quire {

// The bytes of a packed weight that are a thread's own part in linear(): whole panels, and for the
// last thread what lies behind them. The ranges of all threads are the weight, in order. (Of a
// gated product a thread reads as much, half of it from the part of another.)
WorkRange weight_bytes_of(const WeightSpec& spec, int thread, int num_threads);

// Touches every page of a weight's memory, before it is packed, on the thread that will read it.
// What is there stays. One thread at a time, of a stream of the host.
void touch_weight(Stream& stream, const PackedWeight& weight);

}  // namespace quire
