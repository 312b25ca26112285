// How kernels of several GPUs wait for each other: through numbers in memory that all of them can
// reach.
#pragma once

#include "kernels/cuda/device_code.h"

#if defined(__CUDACC__)
#include "kernels/cuda/ranks/system_ptx.h"
#else
#include "kernels/cuda/emulation/system/system_ptx.h"
#endif

namespace quire::cuda {

inline constexpr int kSignalThreads = 256;  // of a block that copies and waits

// Returns whether a signal has reached a number. It may be beyond it, since the sender may be steps
// ahead.
QUIRE_DEVICE bool has_come_to(const uint32_t* signal, uint32_t number) {
  return static_cast<int32_t>(ptx::load_acquire_system(signal) - number) >= 0;
}

struct SignalWait {
  const uint32_t* signal = nullptr;
  uint32_t number = 0;
  // Host memory: 1 + the rank or stage that did not come, once a waiting one has given up; 0 until
  // then.
  uint32_t* missing = nullptr;
  int64_t deadline_us = 0;
};

// Returns whether the signal has come before the deadline. count_begun() returns how many ranks or
// stages before this one have begun; the deadline is extended whenever that number grows. After the
// deadline the last of them is reported as missing, or number 0 if none has begun.
template <typename F>
QUIRE_DEVICE bool wait_for_signal(const SignalWait& wait, F&& count_begun) {
  constexpr int kLooks = 1024;  // checks of the signal per check of the clock and the host's memory
  uint64_t begin_ns = ptx::clock_ns();
  int num_begun = 0;
  for (int look = 1;; ++look) {
    if (has_come_to(wait.signal, wait.number)) return true;
    ptx::pause();
    if (look % kLooks != 0) continue;
    if (ptx::load_acquire_system(wait.missing) != 0) return false;
    const int begun = count_begun();
    if (begun != num_begun) {
      num_begun = begun;
      begin_ns = ptx::clock_ns();
    }
    if (ptx::clock_ns() - begin_ns < static_cast<uint64_t>(wait.deadline_us) * 1000) continue;
    const int late = num_begun == 0 ? 0 : num_begun - 1;
    ptx::store_release_system(wait.missing, static_cast<uint32_t>(late) + 1);
    return false;
  }
}

}  // namespace quire::cuda
