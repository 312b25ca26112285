// Ranks that are threads of one process: what one writes the others read where it lies, so they only
// have to meet.
//
//   QUIRE_ASSIGN_OR_RETURN(auto ranks, SharedRanks::create(2, {.memory_bytes = bytes}));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/rank_group.h"

namespace quire {

struct SharedRanksOptions {
  int64_t memory_bytes = 0;
  // How long a rank waits for another before it takes the group for broken.
  int64_t deadline_ms = 4000;
};

class SharedRanks final : public RankGroup {
 public:
  // Seats for `num_ranks` threads. kInvalidArgument: a number outside of [1, kMaxRanks].
  // kResourceExhausted: the system has not as much memory.
  static Result<std::vector<std::unique_ptr<RankGroup>>> create(int num_ranks,
                                                                const SharedRanksOptions& options);

  ~SharedRanks() override;

  std::span<std::byte> memory() const override;
  bool gather(const GatheredMatrix&) override { return meet(); }
  bool release() override { return meet(); }
  void leave() override;
  Status status() const override;

 private:
  struct Region;
  SharedRanks(std::shared_ptr<Region> region, int rank, int64_t deadline_ms);
  // Returns when every rank has come as often as this one.
  bool meet();
  bool wait_for(int other);

  std::shared_ptr<Region> region_;
  int64_t deadline_ms_;
  uint32_t num_meetings_ = 0;
};

}  // namespace quire
