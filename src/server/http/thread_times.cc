#include "server/http/thread_times.h"

#include <pthread.h>

#include <algorithm>

namespace quire::server {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

ThreadTimes::Scope::Scope(ThreadTimes& times) : times_(times) {
  is_counted_ = pthread_getcpuclockid(pthread_self(), &clock_) == 0;
  if (!is_counted_) return;
  const std::lock_guard lock(times_.mutex_);
  times_.clocks_.push_back(clock_);
}

ThreadTimes::Scope::~Scope() {
  if (!is_counted_) return;
  const std::lock_guard lock(times_.mutex_);
  times_.clocks_.erase(std::ranges::find(times_.clocks_, clock_));
  times_.ended_seconds_ += seconds_of(clock_);
}

double ThreadTimes::cpu_seconds() const {
  const std::lock_guard lock(mutex_);
  double seconds = ended_seconds_;
  for (const clockid_t clock : clocks_) seconds += seconds_of(clock);
  return seconds;
}

}  // namespace quire::server
