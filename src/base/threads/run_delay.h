// How long a thread was ready to run while other threads had its core.
#pragma once

#include <atomic>
#include <cstdint>

namespace quire {

// Reads the second number of Linux's /proc/thread-self/schedstat (Documentation/scheduler/
// sched-stats.rst). Where the system keeps no such count, no thread was ever delayed.
class RunDelay {
 public:
  RunDelay() = default;
  ~RunDelay();
  RunDelay(const RunDelay&) = delete;
  RunDelay& operator=(const RunDelay&) = delete;

  // From now on the calling thread is the one that is looked at. The delay starts again.
  void watch_this_thread();
  // Microseconds of delay since the last call or watch_this_thread(). One caller at a time;
  // allocates nothing, takes a microsecond or two.
  int64_t take_us();

 private:
  int64_t total_ns() const;

  std::atomic<int> file_{-1};
  std::atomic<int64_t> taken_ns_{0};
};

}  // namespace quire
