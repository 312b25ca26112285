// Ranks that are threads of one process, or processes of one machine: what one writes the others read
// where it lies, so they only have to meet.
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
#include "comm/rank_links.h"

namespace quire {

struct SharedRanksOptions {
  int64_t memory_bytes = 0;
  // A rank that waits longer than this for another one takes the group for broken.
  int64_t deadline_ms = 4000;
};

// What linked processes take their seats in.
struct SharedSeat {
  RankLinks* links = nullptr;  // who is lost there is lost here
  int first = 0;               // of the linked ranks, the first one of the group
  int size = 1;
};

class SharedRanks final : public RankGroup {
 public:
  // Seats for `num_ranks` threads. kInvalidArgument: a number outside of [1, kMaxRanks].
  // kResourceExhausted: the system has not as much memory.
  static Result<std::vector<std::unique_ptr<RankGroup>>> create(int num_ranks,
                                                                const SharedRanksOptions& options);

  // How many bytes of memory `memory_bytes` for matrices take.
  static int64_t mapped_bytes(int64_t memory_bytes);
  // Takes one seat for this process in a file of mapped_bytes(), which the other ranks map too. The
  // rank that `begins` must get the file before anybody has used it. kResourceExhausted: the file
  // cannot be mapped.
  static Result<std::unique_ptr<RankGroup>> map(int file_descriptor, int64_t memory_bytes,
                                                bool begins, const SharedSeat& seat);

  ~SharedRanks() override;

  std::span<std::byte> memory() const override;
  bool gather(const GatheredMatrix&) override { return meet(); }
  bool all_to_all(const ExchangedMatrix&) override { return meet(); }
  bool release() override { return meet(); }
  void leave() override;
  Status status() const override;

 private:
  struct Region;
  SharedRanks(std::shared_ptr<Region> region, int rank, int64_t deadline_ms, SharedSeat seat);
  // Returns when every rank has come as often as this one.
  bool meet();
  bool wait_for(int other);
  bool is_broken() const;
  void break_at(int other);

  std::shared_ptr<Region> region_;
  int64_t deadline_ms_;
  SharedSeat seat_;
  uint32_t num_meetings_ = 0;
};

}  // namespace quire
