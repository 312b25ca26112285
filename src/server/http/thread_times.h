// ThreadTimes adds up the CPU time of a set of threads, for /metrics.
#pragma once

#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

namespace quire::server {

// Any thread may call it.
class ThreadTimes {
 public:
  // Adds a running thread. Its CPU time counts until it ends.
  void add(std::thread& thread);
  double cpu_seconds() const;

 private:
  mutable std::mutex mutex_;
  std::vector<clockid_t> clocks_;  // guarded by mutex_
};

}  // namespace quire::server
