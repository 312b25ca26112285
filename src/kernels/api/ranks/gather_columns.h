// The ranks of a group, a GPU each, put a matrix together: every rank has a copy of it, of which it
// has written some columns, and stores them to the copies of the others. Nothing is summed, so
// nothing has an order that could change a bit (docs/decisions/121-ranks-on-gpus.md).
//
//   ops.gather_columns(stream, {.rank = 0, .num_ranks = 2, .matrices = {…}, .signals = {…}, …});
//
// Every rank queues the same gathers in the same order, each on its own stream. What is queued behind
// one finds all columns in the rank's own copy. The host does nothing, so a gather can be captured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/stream.h"

namespace quire {

inline constexpr int32_t kMaxGatherRanks = 8;
inline constexpr int32_t kMaxGatherBlocks = 64;

// In the memory of a rank: how often the blocks of its gathers have met those of the others. Zero
// before the first gather. Numbers wrap around.
struct GatherSignals {
  uint32_t num_meetings[kMaxGatherBlocks];
  uint32_t arrivals[kMaxGatherRanks][kMaxGatherBlocks];  // of the others, who store them here
};

struct GatherColumnsParams {
  int32_t rank = 0;
  int32_t num_ranks = 1;
  std::byte* matrices[kMaxGatherRanks] = {};     // by rank: its copy, which every rank may write
  GatherSignals* signals[kMaxGatherRanks] = {};  // by rank, likewise
  int64_t row_stride_bytes = 0;
  int64_t num_rows = 0;     // 0: the ranks only meet
  int64_t begin_bytes = 0;  // of each row: what this rank has written
  int64_t end_bytes = 0;
  // Or whole rows, on the device [num_rows]: this rank has written those whose number lies in
  // [first_number, end_number), and stores to each rank the bytes that it wants of them.
  const int32_t* row_numbers = nullptr;
  int32_t first_number = 0;
  int32_t end_number = 0;
  int64_t wanted_begin[kMaxGatherRanks] = {};  // by rank
  int64_t wanted_end[kMaxGatherRanks] = {};
  int32_t num_blocks = 1;  // gather_blocks(), the same number on every rank
  // Where the host and all GPUs see it: 0, or 1 + the rank that did not come. Then nobody waits.
  uint32_t* missing = nullptr;
  int64_t deadline_us = 0;  // how long a rank waits for another
};

// For ranks that have written at most `most_bytes` each.
constexpr int32_t gather_blocks(int64_t most_bytes) {
  constexpr int64_t kBytesPerBlock = 8 << 10;
  const int64_t wanted = (most_bytes + kBytesPerBlock - 1) / kBytesPerBlock;
  return static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, kMaxGatherBlocks));
}

}  // namespace quire
