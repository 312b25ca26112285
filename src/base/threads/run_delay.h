// Measures how long a thread was ready to run while other threads had its core.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

namespace quire {

// Reads the second number of Linux's /proc/thread-self/schedstat (Documentation/scheduler/
// sched-stats.rst). If the system has no such count, run_us() tells how long the thread ran of the
// time in which it did not sleep.
class RunDelay {
 public:
  RunDelay() = default;
  ~RunDelay();
  RunDelay(const RunDelay&) = delete;
  RunDelay& operator=(const RunDelay&) = delete;

  // Starts to count the delay of the calling thread, from zero. Without `may_count` it behaves as
  // on a system that has no count.
  void watch_this_thread(bool may_count = true);
  bool is_counted() const { return file_.load(std::memory_order_relaxed) >= 0; }
  // Returns the microseconds of delay since the last call or watch_this_thread(). One caller at a
  // time; allocates nothing, takes a microsecond or two.
  int64_t take_us();
  // Returns the microseconds that the thread has run since it began. Precondition: the thread has
  // not ended. Any thread may call it.
  int64_t run_us() const;

 private:
  int64_t total_ns() const;

  std::atomic<int> file_{-1};
  std::atomic<clockid_t> clock_{CLOCK_THREAD_CPUTIME_ID};
  std::atomic<int64_t> taken_ns_{0};
};

}  // namespace quire
