// The recurrent states of sequences, which the ops of causal_conv.h, selective_scan.h, ssd_scan.h
// and delta_rule.h update token by token. They are float32, in blocks of a pool (core/kv_spec.h).
//
// Every op computes the tokens of a segment one after the other in one fixed order of arithmetic,
// and the next segment of a sequence starts from the block that the segment before it wrote. So the
// bits of a token's result do not depend on where its sequence is cut into segments (law L4).
#pragma once

#include <cstdint>

#include "device/stream.h"

namespace quire {

// A block holds one state; that of block b begins at data + b * block_stride.
struct StateView {
  float* data = nullptr;
  int64_t block_stride = 0;  // floats
};

// A segment is a run of tokens of one sequence. The segments of a sequence are in order.
struct StateSegments {
  // [S + 1]: segment s is tokens [start_loc[s], start_loc[s + 1]) of the flattened batch, at least
  // one.
  const int32_t* start_loc = nullptr;
  const int32_t* state_in = nullptr;   // [S] blocks; 0: the sequence begins here, from zeros
  const int32_t* state_out = nullptr;  // [S] blocks, may be state_in; 0: the state is not kept
  int32_t num_segments = 0;            // S
};

// Returns whether the stream's backend has the ops of states.
bool supports_states(const Stream& stream);

}  // namespace quire
