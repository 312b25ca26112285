// A WorkerPool has a few threads for work that would hold up an IO thread: parsing, templates and
// tokenization of large requests. Its queue is bounded, and a full queue refuses work.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/http/thread_times.h"

namespace quire::server {

class WorkerPool {
 public:
  WorkerPool(int32_t num_threads, size_t max_queued);
  ~WorkerPool();
  // Starts the threads, whose CPU time is counted in `times`, which must outlive them.
  void start(ThreadTimes& times);
  // Returns false when the queue is full or the pool has stopped. Any thread may call it.
  bool try_post(std::function<void()> work);
  // Drops the queued work and waits for the running work. Idempotent.
  void stop();

 private:
  void run();

  const int32_t num_threads_;
  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace quire::server
