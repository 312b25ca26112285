// Threads that do the same thing at the same time, one for each rank.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"

namespace quire {

class RankThreads {
 public:
  // The calling thread is rank 0; the others get a thread each.
  explicit RankThreads(int num_ranks);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  int size() const { return static_cast<int>(statuses_.size()); }

  // Calls work(rank) for every rank, each on its thread, and returns when all have come back, with
  // the error of the first rank that has one. Always the same thread calls it.
  Status run(const std::function<Status(int rank)>& work);

 private:
  void serve(int rank);

  const int num_spins_;
  const std::function<Status(int rank)>* work_ = nullptr;  // null: end
  std::atomic<uint32_t> num_runs_{0};
  std::atomic<uint32_t> num_done_{0};  // ranks behind the first that have done the last run
  std::vector<Status> statuses_;
  std::vector<std::thread> threads_;
};

}  // namespace quire
