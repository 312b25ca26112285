// ThreadTimes adds up the CPU time of a set of threads, for /metrics.
#pragma once

#include <ctime>
#include <mutex>
#include <vector>

namespace quire::server {

// Any thread may call it. It must outlive its scopes.
class ThreadTimes {
 public:
  // A Scope counts the CPU time of the thread that makes it and destroys it. The time still counts
  // when the thread has ended.
  class Scope {
   public:
    explicit Scope(ThreadTimes& times);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ThreadTimes& times_;
    clockid_t clock_{};
    bool is_counted_ = false;
  };

  double cpu_seconds() const;

 private:
  mutable std::mutex mutex_;
  std::vector<clockid_t> clocks_;  // of running threads; guarded by mutex_
  double ended_seconds_ = 0;       // of threads that have ended; guarded by mutex_
};

}  // namespace quire::server
