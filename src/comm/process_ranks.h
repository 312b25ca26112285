// join_processes() makes a group of linked ranks, each of which is a process. The group works
// through shared memory where all of them are on one machine, and over TCP otherwise.
//
//   QUIRE_ASSIGN_OR_RETURN(JoinedRanks joined,
//                          join_processes({.links = &links, .size = links.size()}, bytes, transport));
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "comm/memory_offers.h"
#include "comm/rank_group.h"
#include "comm/shared_ranks.h"

namespace quire {

struct JoinedRanks {
  std::unique_ptr<RankGroup> group;
  RankTransport transport = RankTransport::kFastest;  // kTcp where ranks share no memory
};

// Every rank of the group calls this, with equal sizes; the transport that the first rank passes is
// used. Borrows the links. kUnavailable: a rank is lost. kResourceExhausted: memory is short.
Result<JoinedRanks> join_processes(const SharedSeat& seat, int64_t memory_bytes,
                                   RankTransport transport);

}  // namespace quire
