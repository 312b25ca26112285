// This says how much shared memory attention needs, for whoever plans a model before it runs.
#pragma once

#include <cstdint>

namespace quire::cuda {

// What a block may ask for on GPUs of compute capability 8.6 and 8.9, the least of all that kernels
// are made for (CUDA C++ Programming Guide, technical specifications per compute capability).
inline constexpr int64_t kLeastSharedBytes = 99 << 10;

// Tensor cores take heads whose rows in the cache are whole pieces of 16 bytes; others go through the
// plain kernel (attention_plain.cu).
constexpr bool fits_tensor_cores(int32_t head_dim, bool is_fp8) {
  return head_dim <= 256 && head_dim % (is_fp8 ? 16 : 8) == 0;
}

// Returns the bytes that a block of the attention kernels must be able to ask for. Above 128 dims a
// GPU without room for two stages of keys and values gets one. An e4m3 cache takes more there, as
// codes and what they stand for lie side by side. The plain kernel needs but what every GPU has.
constexpr int64_t least_attention_shared_bytes(int32_t head_dim, bool is_fp8) {
  if (!fits_tensor_cores(head_dim, is_fp8)) return 0;
  const int64_t dims = head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
  const int64_t query_bytes = (dims <= 128 ? 128 : 64) * dims * 2;
  const int64_t tile_bytes = 64 * dims * 2;
  const int64_t num_tiles = dims <= 128 ? 4 : is_fp8 ? 3 : 2;
  return query_bytes + num_tiles * tile_bytes;
}

}  // namespace quire::cuda
