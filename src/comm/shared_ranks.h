// SharedRanks is a group of ranks that are threads of one process, or processes of one machine.
// They read each other's columns in the memory where they were written, so they only have to meet.
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
  // A rank that waits for another one longer than this declares the group broken.
  int64_t deadline_ms = 4000;
};

// The place of this process among linked ranks.
struct SharedSeat {
  RankLinks* links = nullptr;  // a rank that is lost there is lost in this group too
  int first = 0;               // the number of the group's first rank among the linked ranks
  int size = 1;
};

class SharedRanks final : public RankGroup {
 public:
  // Returns seats for `num_ranks` threads. kInvalidArgument: a number outside of [1, kMaxRanks].
  // kResourceExhausted: the system does not have that much memory.
  static Result<std::vector<std::unique_ptr<RankGroup>>> create(int num_ranks,
                                                                const SharedRanksOptions& options);

  // Returns the size of the mapping that has `memory_bytes` for matrices.
  static int64_t mapped_bytes(int64_t memory_bytes);
  // Maps a file of mapped_bytes(), which the other ranks map too, and takes one seat for this
  // process. The rank with `begins` initializes it, and must do so before any other rank uses it.
  // kResourceExhausted: the file cannot be mapped.
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
  // Returns true when every rank has called this as often as this one, false when the group is
  // broken.
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
