// MaskWorkers: threads that make token masks while the device computes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace quire {

class MaskWorkers {
 public:
  // A job is one piece of work. Its poster and its function share the ownership of the data that
  // the function uses.
  class Job {
   public:
    explicit Job(std::function<void()> function) : function_(std::move(function)) {}
    bool done() const { return done_.load(std::memory_order_acquire); }

   private:
    friend class MaskWorkers;
    std::function<void()> function_;  // does not throw
    std::atomic<bool> done_{false};
  };

  explicit MaskWorkers(int32_t num_threads);
  ~MaskWorkers();  // drops jobs that have not begun

  std::shared_ptr<Job> post(std::function<void()> function);
  // Waits for the job until `deadline` and returns whether it is done. One thread at a time may
  // wait. Each wait is a wake-up, so to wait for many jobs, begin with the one that was posted
  // last.
  bool wait(const Job& job, std::chrono::steady_clock::time_point deadline);

 private:
  // An awake thread does this many jobs sooner than another thread wakes up.
  static constexpr size_t kJobsWorthWaking = 8;

  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  size_t num_asleep_ = 0;         // threads that were not notified
  size_t num_called_ = 0;         // threads that were notified and are not yet awake
  std::condition_variable done_;  // signals that awaited_ is done
  const Job* awaited_ = nullptr;
  bool closed_ = false;
  std::deque<std::shared_ptr<Job>> jobs_;
  std::vector<std::thread> threads_;
};

}  // namespace quire
