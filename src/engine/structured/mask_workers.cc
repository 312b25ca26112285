#include "engine/structured/mask_workers.h"

#include <utility>

namespace quire {

MaskWorkers::MaskWorkers(int32_t num_threads) {
  for (int32_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { run(); });
}

MaskWorkers::~MaskWorkers() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<MaskWorkers::Job> MaskWorkers::post(std::function<void()> function) {
  auto job = std::make_shared<Job>(std::move(function));
  const std::lock_guard lock(mutex_);
  jobs_.push_back(job);
  const size_t num_awake = threads_.size() - num_asleep_;
  if (num_asleep_ > 0 && jobs_.size() > num_awake * kJobsWorthWaking) {
    --num_asleep_;
    ++num_called_;
    wake_.notify_one();
  }
  return job;
}

bool MaskWorkers::wait(const Job& job, std::chrono::steady_clock::time_point deadline) {
  if (job.done()) return true;
  std::unique_lock lock(mutex_);
  awaited_ = &job;
  const bool is_done = done_.wait_until(lock, deadline, [&job] { return job.done(); });
  awaited_ = nullptr;
  return is_done;
}

void MaskWorkers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (jobs_.empty()) {
      ++num_asleep_;
      wake_.wait(lock, [this] { return closed_ || num_called_ > 0; });
      if (!closed_) --num_called_;
    }
    if (closed_) return;
    if (jobs_.empty()) continue;  // another thread took the job
    const std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::exchange(job->function_, nullptr)();
    lock.lock();
    job->done_.store(true, std::memory_order_release);
    if (awaited_ == job.get()) done_.notify_one();
  }
}

}  // namespace quire
