// The group of some linked ranks, each a process: through shared memory where all of them are on one
// machine, over TCP otherwise.
//
//   QUIRE_ASSIGN_OR_RETURN(auto group, join_processes({.links = &links, .size = links.size()}, bytes));
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "comm/rank_group.h"
#include "comm/shared_ranks.h"

namespace quire {

enum class RankTransport : uint8_t {
  kFastest,  // shared memory where the first rank of the group can share some with all others
  kTcp,
};

// Every rank of the group calls it, with equal sizes; what the first one wants is done. Borrows the
// links. kUnavailable: a rank is lost. kResourceExhausted: memory is short.
Result<std::unique_ptr<RankGroup>> join_processes(const SharedSeat& seat, int64_t memory_bytes,
                                                  RankTransport transport);

}  // namespace quire
