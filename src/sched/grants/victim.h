// Whom to preempt when a running request needs blocks and none are free.
#pragma once

#include <cstdint>
#include <span>

#include "sched/requests/entry.h"
#include "sched/scheduler_config.h"

namespace quire {

// The request of `running` whose preemption costs least: tokens to recompute (those in blocks that
// others hold as well stay cached) per block that it frees and `requester` needs. Guards: nobody
// older is preempted for somebody younger, nobody more important for somebody less (priority
// policy), nobody with a hard reservation; a tie takes the later deadline, then the newer request.
// Returns `requester` itself when nobody else may be preempted. Looks at the newest
// kMaxVictimCandidates candidates, so that its cost is bounded.
inline constexpr int32_t kMaxVictimCandidates = 32;
Entry& choose_victim(std::span<Entry* const> running, Entry& requester,
                     const BlockCounts& num_needed_blocks, const KvManager& kv,
                     SchedulingPolicy policy);

}  // namespace quire
