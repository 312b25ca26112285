// Reads memory as fast as a GPU can: the limit that kernels bound by reading are measured against.
#pragma once

#include <cstdint>

#include "device/stream.h"

namespace quire {

inline constexpr int64_t kReadSums = 1024;

// All pointers are device memory.
struct ReadBytesParams {
  const void* from = nullptr;  // 16-byte aligned
  int64_t num_bytes = 0;       // a multiple of 16
  uint32_t* sums = nullptr;    // [kReadSums], their exclusive or becomes that of all words
};
// For GPUs.
void read_bytes(Stream& stream, const ReadBytesParams& params);

}  // namespace quire
