// Measures how long blocks live in the cache: it follows a sample of allocations until the block is
// evicted. Which allocations are sampled is a pure function of their number, so that runs repeat
// (S-8). One thread may use it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "kv/books/kv_events.h"

namespace quire {

class ResidencySampler {
 public:
  // `rate` in [0, 1] is the share of allocations that are followed. At most max_samples reports are
  // kept between drains.
  ResidencySampler(int32_t num_blocks, double rate, int32_t max_samples);

  void on_allocate(BlockId block, int64_t now_us);
  // Counts an access by another sequence.
  void on_touch(BlockId block, int64_t now_us);
  void on_free(BlockId block, int64_t now_us);
  // Records that the block's cached content is lost.
  void on_evict(BlockId block, int64_t now_us);

  // Appends the reports since the last drain.
  void drain(std::vector<ResidencySample>& out);

 private:
  static constexpr int32_t kNumAccesses = 4;
  struct Record {
    int64_t allocated_us = 0;
    int64_t last_use_us = 0;
    int64_t access_us[kNumAccesses] = {};  // the latest ones, oldest first
    int32_t num_accesses = 0;
  };
  Record* find(BlockId block);

  const float rate_;
  const size_t max_samples_;
  uint64_t num_allocations_ = 0;
  std::vector<int32_t> record_of_block_;  // -1: not followed
  std::vector<Record> records_;
  std::vector<int32_t> free_records_;
  std::vector<ResidencySample> samples_;
};

}  // namespace quire
