// A stage of a pipeline hands the rows that it has computed to the next one, whose GPU is another:
// it stores them to an inbox there and says so; the other waits for that and takes them out. The host
// does nothing but queue both, in any order (docs/decisions/144-stages-and-engines-of-gpus.md).
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

// In the memory of a stage, for the stages before it. Zero before the first step. Numbers wrap
// around.
struct HandOverSignals {
  uint32_t arrivals[kMaxHandOverBlocks];  // of the stage just before: the last step that came
  uint32_t begun[kMaxStages];             // by stage: the last step that it has begun
};

struct SendRowsParams {
  const std::byte* rows = nullptr;
  std::byte* inbox = nullptr;  // on the next stage's GPU, as all that follows
  HandOverSignals* signals = nullptr;
  int64_t num_bytes = 0;
  int32_t num_blocks = 1;  // hand_over_blocks(), the same number on both sides
  uint32_t number = 0;     // of the step: 1, 2, 3, …
};

struct ReceiveRowsParams {
  int32_t stage = 0;  // 0: nothing comes; the stage only says that it has begun the step
  const std::byte* inbox = nullptr;
  std::byte* rows = nullptr;
  HandOverSignals* signals = nullptr;  // of this stage
  int64_t num_bytes = 0;
  int32_t num_blocks = 1;
  uint32_t number = 0;
  // Of the stages behind this one, on their GPUs, who wait longer for a step that goes on.
  HandOverSignals* later[kMaxStages] = {};
  int32_t num_later = 0;
  // Where the host and all GPUs see it: 0, or 1 + the stage that did not come. Then nobody waits.
  uint32_t* missing = nullptr;
  int64_t deadline_us = 0;  // since a stage has begun the step, or the wait for the first one
};

constexpr int32_t hand_over_blocks(int64_t num_bytes) {
  constexpr int64_t kBytesPerBlock = 16 << 10;
  const int64_t wanted = (num_bytes + kBytesPerBlock - 1) / kBytesPerBlock;
  return static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, kMaxHandOverBlocks));
}

}  // namespace quire
