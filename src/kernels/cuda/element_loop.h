// Loops in which each thread takes elements that are as far apart as there are threads.
//
//   for (int64_t i = global_thread(); i < count; i += num_global_threads()) …
//   launch<kernel>(stream, element_shape(stream, count), …);
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace quire::cuda {

inline constexpr int kElementThreads = 256;

QUIRE_DEVICE int64_t global_thread() {
  return int64_t{ptx::block_index()} * ptx::block_threads() + ptx::thread_index();
}
QUIRE_DEVICE int64_t num_global_threads() {
  return int64_t{ptx::num_blocks()} * ptx::block_threads();
}

inline LaunchShape element_shape(Stream& stream, int64_t work) {
  constexpr int kBlocksPerSm = 8;
  return {.num_blocks = blocks_for(gpu(stream), work, kElementThreads, kBlocksPerSm),
          .num_threads = kElementThreads};
}

}  // namespace quire::cuda
