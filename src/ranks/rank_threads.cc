#include "ranks/rank_threads.h"

#include <exception>
#include <utility>

#include "base/threads/spins.h"

namespace quire {
namespace {

// Spins first, since steps follow each other closely, and then sleeps.
void wait_while(const std::atomic<uint32_t>& word, uint32_t value, int num_spins) {
  for (int spin = 0; spin < num_spins; ++spin) {
    if (word.load(std::memory_order_acquire) != value) return;
    __builtin_ia32_pause();
  }
  word.wait(value, std::memory_order_acquire);
}

// Turns an exception into an error: it may leave neither run(), while other ranks still use `work`,
// nor a thread.
Status call(const std::function<Status(int rank)>& work, int rank) {
  try {
    return work(rank);
  } catch (const std::exception& e) {  // out of memory
    return internal_error("rank {}: {}", rank, e.what());
  }
}

}  // namespace

RankThreads::RankThreads(int num_ranks)
    : num_spins_(spins_before_sleep(num_ranks)), statuses_(static_cast<size_t>(num_ranks)) {
  for (int rank = 1; rank < num_ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  work_ = nullptr;
  num_runs_.fetch_add(1, std::memory_order_release);
  num_runs_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status RankThreads::run(const std::function<Status(int rank)>& work) {
  work_ = &work;
  num_done_.store(0, std::memory_order_relaxed);
  num_runs_.fetch_add(1, std::memory_order_release);
  num_runs_.notify_all();
  statuses_[0] = call(work, 0);
  const auto num_others = static_cast<uint32_t>(threads_.size());
  for (uint32_t done; (done = num_done_.load(std::memory_order_acquire)) < num_others;)
    wait_while(num_done_, done, num_spins_);
  for (Status& status : statuses_) {
    if (!status.ok()) return std::move(status);
  }
  return {};
}

void RankThreads::serve(int rank) {
  for (uint32_t num_runs = 0;; ++num_runs) {
    wait_while(num_runs_, num_runs, num_spins_);
    if (work_ == nullptr) return;
    statuses_[static_cast<size_t>(rank)] = call(*work_, rank);
    num_done_.fetch_add(1, std::memory_order_release);
    num_done_.notify_one();
  }
}

}  // namespace quire
