// Operations that reach beyond one GPU, in addition to those of ptx.h;
// emulation/system/system_ptx.h has the same functions for a host compiler.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"

namespace quire::cuda::ptx {

// Stores x for all GPUs and the host to see, after everything that this thread's block stored
// before its last barrier.
QUIRE_DEVICE void store_release_system(uint32_t* at, uint32_t x) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(x) : "memory");
}
QUIRE_DEVICE uint32_t load_acquire_system(const uint32_t* at) {
  uint32_t x;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
  return x;
}
// Returns the time of a steady clock with steps of about a microsecond.
QUIRE_DEVICE uint64_t clock_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}
// Called between two checks of memory that another GPU will write.
QUIRE_DEVICE void pause() {}

}  // namespace quire::cuda::ptx
