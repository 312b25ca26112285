#include "server/http/worker_pool.h"

#include <utility>

namespace quire::server {

WorkerPool::WorkerPool(int32_t num_threads, size_t max_queued)
    : num_threads_(num_threads), max_queued_(max_queued) {}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::start(ThreadTimes& times) {
  for (int32_t i = 0; i < num_threads_; ++i) {
    threads_.emplace_back([this, &times] {
      const ThreadTimes::Scope scope(times);
      run();
    });
  }
}

bool WorkerPool::try_post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void WorkerPool::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

void WorkerPool::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  threads_.clear();
}

}  // namespace quire::server
