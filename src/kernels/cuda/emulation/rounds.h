// Rounds decides which thread of an emulated block runs next. A thread that is ready when a round
// begins runs once in it; one that becomes ready meanwhile waits for the next round.
#pragma once

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace quire::cuda::emulation {

class Rounds {
 public:
  // Threads 0 … num_threads - 1 are ready.
  explicit Rounds(int num_threads) : ready_(static_cast<size_t>(num_threads)) {
    std::iota(ready_.begin(), ready_.end(), 0);
  }

  // Makes these threads ready for the next round.
  void add(const std::vector<int>& threads) {
    ready_.insert(ready_.end(), threads.begin(), threads.end());
  }

  // Begins a round at a thread that `random` chooses. Threads of warp `held` are left for a later
  // one.
  void begin(size_t random, size_t held) {
    round_.clear();
    std::swap(round_, ready_);
    left_ = round_.size();
    next_ = left_ == 0 ? 0 : random % left_;
    held_ = held;
  }

  // Returns the thread that runs next in this round, or -1 when none is left.
  int next() {
    while (left_ > 0) {
      const int thread = round_[next_];
      if (++next_ == round_.size()) next_ = 0;
      --left_;
      if (static_cast<size_t>(thread / 32) != held_) return thread;
      ready_.push_back(thread);
    }
    return -1;
  }

 private:
  std::vector<int> ready_;
  std::vector<int> round_;
  size_t next_ = 0;  // index in round_
  size_t left_ = 0;
  size_t held_ = 0;
};

}  // namespace quire::cuda::emulation
