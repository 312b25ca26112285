#include "server/http/thread_times.h"

#include <pthread.h>

namespace quire::server {

void ThreadTimes::add(std::thread& thread) {
  clockid_t clock{};
  if (pthread_getcpuclockid(thread.native_handle(), &clock) != 0) return;
  const std::lock_guard lock(mutex_);
  clocks_.push_back(clock);
}

double ThreadTimes::cpu_seconds() const {
  const std::lock_guard lock(mutex_);
  double seconds = 0;
  for (const clockid_t clock : clocks_) {
    timespec time{};
    if (clock_gettime(clock, &time) != 0) continue;  // the thread has ended
    seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  return seconds;
}

}  // namespace quire::server
