// Extends device_code.h by what only sm_90a has, for files named *_sm90a.cu.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_code.h"

#if defined(__CUDACC__)
#include "kernels/cuda/hopper.h"
#else
#include "kernels/cuda/emulation/hopper.h"
#endif

namespace quire::cuda {

// Returns barrier number i of those that begin at `offset` in shared memory.
QUIRE_DEVICE uint64_t* barrier_at(int offset, int i) {
  return reinterpret_cast<uint64_t*>(ptx::shared_memory() + offset) + i;
}

}  // namespace quire::cuda
