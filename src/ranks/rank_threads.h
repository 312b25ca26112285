// RankThreads runs the same function at the same time on one thread for each rank.
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
  // The calling thread is rank 0; each other rank gets a thread of its own.
  explicit RankThreads(int num_ranks);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  int size() const { return static_cast<int>(statuses_.size()); }

  // Calls work(rank) for every rank, each on its thread. Returns when all calls have returned, with
  // the error of the lowest rank that has one. An exception of a call counts as kInternal. All
  // calls must come from the same thread.
  Status run(const std::function<Status(int rank)>& work);

 private:
  void serve(int rank);

  const int num_spins_;
  const std::function<Status(int rank)>* work_ = nullptr;  // null: the threads end
  std::atomic<uint32_t> num_runs_{0};
  std::atomic<uint32_t> num_done_{0};  // how many threads have finished the current run
  std::vector<Status> statuses_;
  std::vector<std::thread> threads_;
};

}  // namespace quire
