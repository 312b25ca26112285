// Chooses the request to preempt when a running request needs blocks and none are free.
#pragma once

#include <cstdint>
#include <span>

#include "sched/requests/entry.h"
#include "sched/scheduler_config.h"

namespace quire {

// Returns the request of `running` whose preemption costs least, in tokens to recompute (tokens in
// blocks that others hold too stay cached) per freed block that `requester` needs. No request is
// preempted for a younger one, for a less important one (priority policy), or if it has a hard
// reservation. A tie takes the later deadline, then the newer request. Returns `requester` itself
// when no other one may be preempted. Looks only at the newest kMaxVictimCandidates candidates, so
// that its cost is bounded.
inline constexpr int32_t kMaxVictimCandidates = 32;
Entry& choose_victim(std::span<Entry* const> running, Entry& requester,
                     const BlockCounts& num_needed_blocks, const KvManager& kv,
                     SchedulingPolicy policy);

}  // namespace quire
