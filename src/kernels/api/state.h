// The states of sequences, which the ops of causal_conv.h, selective_scan.h, ssd_scan.h and
// delta_rule.h carry from token to token: float32, in blocks of a pool (core/kv_spec.h).
//
// Every op runs the tokens of a segment one after the other with one fixed order of arithmetic, and
// the next segment of a sequence goes on from the block that the last one wrote. So a token's
// result has the same bits however its sequence is cut into segments (law L4).
#pragma once

#include <cstdint>

#include "device/stream.h"

namespace quire {

// One state per block: that of block b begins at data + b * block_stride.
struct StateView {
  float* data = nullptr;
  int64_t block_stride = 0;  // floats
};

// Runs of tokens of one sequence each. Segments of one sequence come in order.
struct StateSegments {
  // [S + 1] tokens of the flattened batch; every segment has at least one.
  const int32_t* start_loc = nullptr;
  const int32_t* state_in = nullptr;   // [S] blocks; 0: the sequence begins here, with zeros
  const int32_t* state_out = nullptr;  // [S] blocks, may be state_in; 0: the state is not kept
  int32_t num_segments = 0;            // S
};

// Whether the stream's backend has the ops of states.
bool supports_states(const Stream& stream);

}  // namespace quire
