// A group of ranks that compute one model together: threads of a process, or processes of one
// machine. They share memory, and they meet: what a rank wrote before a meeting, every rank sees
// behind it. Nothing is summed here, so nothing has an order that could change a bit
// (docs/decisions/035-ranks.md).
//
//   QUIRE_ASSIGN_OR_RETURN(auto ranks, RankGroup::in_process(2, {.shared_bytes = bytes}));
//   // thread r:
//   write_columns_of(r, ranks[r]->shared());
//   if (!ranks[r]->meet()) return ranks[r]->status();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace quire {

struct RankGroupOptions {
  int64_t shared_bytes = 0;  // of the memory that all ranks read and write
  // How long a rank waits for another before it takes the group for broken.
  int64_t deadline_ms = 4000;
};

// One rank's seat in the group. One thread uses it, but any thread may call leave().
class RankGroup {
 public:
  static constexpr int kMaxRanks = 64;

  // Seats for `num_ranks` threads of this process. kInvalidArgument: a number outside of
  // [1, kMaxRanks]. kResourceExhausted: the system has not as much memory.
  static Result<std::vector<std::unique_ptr<RankGroup>>> in_process(
      int num_ranks, const RankGroupOptions& options);

  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return rank_; }
  int size() const;
  // The same bytes for every rank, 4096-byte aligned.
  std::span<std::byte> shared() const;

  // Returns when every rank has come as often as this one. False, now and ever after: a rank has
  // left, or did not come before the deadline.
  bool meet();
  // Breaks the group: no rank waits any longer.
  void leave();
  // kUnavailable with the rank that was missing, once the group is broken.
  Status status() const;

 private:
  struct Region;
  RankGroup(std::shared_ptr<Region> region, int rank, int64_t deadline_ms);
  bool wait_for(int other);

  std::shared_ptr<Region> region_;
  int rank_;
  int64_t deadline_ms_;
  uint32_t num_meetings_ = 0;
};

}  // namespace quire
