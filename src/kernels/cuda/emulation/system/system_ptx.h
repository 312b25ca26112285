// Operations that reach beyond one GPU. The ranks are threads here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "kernels/cuda/emulation/ptx.h"

namespace quire::cuda::ptx {

inline void store_release_system(uint32_t* at, uint32_t x) {
  std::atomic_ref(*at).store(x, std::memory_order_release);
}
inline uint32_t load_acquire_system(const uint32_t* at) {
  return std::atomic_ref(*const_cast<uint32_t*>(at)).load(std::memory_order_acquire);
}
inline uint64_t clock_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}
// Sleeps, since the other rank's thread may need this CPU.
inline void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace quire::cuda::ptx
