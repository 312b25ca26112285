// read_bytes() reads memory as fast as a GPU can. Benchmarks compare kernels that are bound by
// reading with its speed.
#pragma once

#include <cstdint>

#include "device/stream.h"

namespace quire {

inline constexpr int64_t kReadSums = 1024;

// All pointers are device memory.
struct ReadBytesParams {
  const void* from = nullptr;  // 16-byte aligned
  int64_t num_bytes = 0;       // a multiple of 16
  uint32_t* sums = nullptr;    // [kReadSums]: the exclusive or of them becomes that of all words
};
// Only GPUs have it.
void read_bytes(Stream& stream, const ReadBytesParams& params);

}  // namespace quire
