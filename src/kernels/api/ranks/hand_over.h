// A stage of a pipeline passes the rows that it has computed to the next stage, which is on another
// GPU. send_rows() stores them to an inbox on that GPU and then signals; receive_rows() waits there
// for the signal and copies the rows out. The host only queues both, in any order
// (docs/decisions/144-stages-and-engines-of-gpus.md).
//
//   ops.send_rows(stream_of_stage_0, {.number = n, …});
//   ops.receive_rows(stream_of_stage_1, {.number = n, …});
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/stream.h"

namespace quire {

inline constexpr int32_t kMaxStages = 64;
inline constexpr int32_t kMaxHandOverBlocks = 64;

// Step numbers in the memory of a stage, which the stages before it store there. The owner sets
// them to 0 before the first step. They wrap around.
struct HandOverSignals {
  // By block: the last step whose rows have arrived from the stage before.
  uint32_t arrivals[kMaxHandOverBlocks];
  uint32_t begun[kMaxStages];  // by stage: the last step that the stage has begun
};

struct SendRowsParams {
  const std::byte* rows = nullptr;
  std::byte* inbox = nullptr;          // on the next stage's GPU
  HandOverSignals* signals = nullptr;  // of the next stage
  int64_t num_bytes = 0;
  int32_t num_blocks = 1;  // hand_over_blocks(), the same number on both sides
  uint32_t number = 0;     // the number of the step: 1, 2, 3, …
};

struct ReceiveRowsParams {
  int32_t stage = 0;  // 0: no rows arrive; the stage only signals that it has begun the step
  const std::byte* inbox = nullptr;
  std::byte* rows = nullptr;
  HandOverSignals* signals = nullptr;  // of this stage
  int64_t num_bytes = 0;
  int32_t num_blocks = 1;
  uint32_t number = 0;
  // Those of the stages after this one, on their GPUs. A stage extends its wait whenever an earlier
  // stage signals there that it has begun the step.
  HandOverSignals* later[kMaxStages] = {};
  int32_t num_later = 0;
  // In memory that the host and all GPUs see: 0, or 1 + the stage that did not come in time. Once
  // it is not 0, no stage waits any more.
  uint32_t* missing = nullptr;
  // It runs from the beginning of the wait, and anew from each time that a stage begins the step.
  int64_t deadline_us = 0;
};

constexpr int32_t hand_over_blocks(int64_t num_bytes) {
  constexpr int64_t kBytesPerBlock = 16 << 10;
  const int64_t wanted = (num_bytes + kBytesPerBlock - 1) / kBytesPerBlock;
  return static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, kMaxHandOverBlocks));
}

}  // namespace quire
