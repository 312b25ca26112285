// gather_columns() completes a matrix on every rank of a group, where each rank has a GPU. Every
// rank has a copy of the matrix and has written some of its columns, which it stores to the copies
// of the other ranks. Nothing is summed, so no order can change a bit
// (docs/decisions/121-ranks-on-gpus.md).
//
//   ops.gather_columns(stream, {.rank = 0, .num_ranks = 2, .matrices = {…}, .signals = {…}, …});
//
// Every rank queues the same gathers in the same order, each on its own stream. Kernels that are
// queued after a gather find all columns in the rank's own copy. A gather does not involve the
// host, so it can be captured in a graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/stream.h"

namespace quire {

inline constexpr int32_t kMaxGatherRanks = 8;
inline constexpr int32_t kMaxGatherBlocks = 64;

// Counters in the memory of a rank: how often the thread blocks of its gathers have met those of
// the other ranks. The owner sets them to 0 before the first gather. They wrap around.
struct GatherSignals {
  uint32_t num_meetings[kMaxGatherBlocks];
  // The counts of the other ranks, which store them here.
  uint32_t arrivals[kMaxGatherRanks][kMaxGatherBlocks];
};

struct GatherColumnsParams {
  int32_t rank = 0;
  int32_t num_ranks = 1;
  std::byte* matrices[kMaxGatherRanks] = {};     // by rank: its copy, which every rank can write
  GatherSignals* signals[kMaxGatherRanks] = {};  // by rank, likewise
  int64_t row_stride_bytes = 0;
  int64_t num_rows = 0;     // 0: the ranks only wait for each other
  int64_t begin_bytes = 0;  // this rank has written bytes [begin_bytes, end_bytes) of each row
  int64_t end_bytes = 0;
  // [num_rows] on the device, or null. With it ranks exchange whole rows instead: this rank has
  // written the rows whose number is in [first_number, end_number), and stores to each rank the
  // bytes [wanted_begin, wanted_end) of them.
  const int32_t* row_numbers = nullptr;
  int32_t first_number = 0;
  int32_t end_number = 0;
  int64_t wanted_begin[kMaxGatherRanks] = {};  // by rank
  int64_t wanted_end[kMaxGatherRanks] = {};
  int32_t num_blocks = 1;  // gather_blocks(), the same number on every rank
  // In memory that the host and all GPUs see: 0, or 1 + the rank that did not arrive in time. Once
  // it is not 0, no rank waits any more.
  uint32_t* missing = nullptr;
  int64_t deadline_us = 0;  // the longest that a rank waits for another
};

// Returns GatherColumnsParams::num_blocks for ranks that have each written at most `most_bytes`.
constexpr int32_t gather_blocks(int64_t most_bytes) {
  constexpr int64_t kBytesPerBlock = 8 << 10;
  const int64_t wanted = (most_bytes + kBytesPerBlock - 1) / kBytesPerBlock;
  return static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, kMaxGatherBlocks));
}

}  // namespace quire
