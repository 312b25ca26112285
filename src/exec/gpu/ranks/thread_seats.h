// The memory in which threads that have a GPU each tell each other where their buffers lie: one
// Seat for each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/shared_ranks.h"

namespace quire {

// Returns one member of a group for each thread, with memory for their seats.
template <typename Seat>
Result<std::vector<std::unique_ptr<RankGroup>>> create_seats(int num_members) {
  // A thread may wait for one that is still opening its GPU or capturing a graph.
  constexpr int64_t kDeadlineMs = 60'000;
  return SharedRanks::create(num_members, {.memory_bytes = num_members * int64_t{sizeof(Seat)},
                                           .deadline_ms = kDeadlineMs});
}

template <typename Seat>
Seat* seats_of(const RankGroup& threads) {
  return reinterpret_cast<Seat*>(threads.memory().data());
}

}  // namespace quire
