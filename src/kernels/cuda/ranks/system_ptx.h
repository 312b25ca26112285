// Operations that reach beyond one GPU, as ptx.h has those within; emulation/system/system_ptx.h says
// the same for a host compiler.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"

namespace quire::cuda::ptx {

// For all GPUs and the host to see, behind everything that this thread's block has stored before the
// last barrier.
QUIRE_DEVICE void store_release_system(uint32_t* at, uint32_t x) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(x) : "memory");
}
QUIRE_DEVICE uint32_t load_acquire_system(const uint32_t* at) {
  uint32_t x;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
  return x;
}
// Of a clock that goes on evenly, in steps of a microsecond or so.
QUIRE_DEVICE uint64_t clock_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}
// Between two looks at what another GPU is to store.
QUIRE_DEVICE void pause() {}

}  // namespace quire::cuda::ptx
