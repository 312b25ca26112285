// Clocks and memory of measurements.
#pragma once

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/stream.h"
#include "kernels/cpu/kernel_tables.h"

namespace quire::bench {

// Returns more bytes than the last-level caches hold: about eight cores share one of 32 to 96 MiB.
inline int64_t cold_bytes(int num_threads) {
  return std::max<int64_t>(int64_t{256} << 20, num_threads * (int64_t{32} << 20));
}

inline double now_us(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

// Returns the clock for measurements. For a team of one it is the CPU time of its thread, so that
// other work on the machine does not count.
inline clockid_t clock_of(const HostStream& stream) {
  return stream.team().size() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
}

// Huge-page memory, zeroed by the kernel and not yet touched.
class Mapping {
 public:
  explicit Mapping(int64_t bytes)
      : bytes_(static_cast<size_t>(cpu::round_up(bytes, int64_t{1} << 21))) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    QUIRE_CHECK(data_ != MAP_FAILED, "no memory for {} bytes", bytes_);
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Mapping() { munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

// Fills the memory with small positive numbers in every float type; each thread writes its share.
inline void fill(HostStream& stream, void* data, int64_t bytes) {
  stream.team().run([&](int thread) {
    const WorkRange mine = split_work(bytes, 64, thread, stream.team().size());
    std::memset(static_cast<uint8_t*>(data) + mine.begin, 0x3c,
                static_cast<size_t>(mine.end - mine.begin));
  });
}

}  // namespace quire::bench
