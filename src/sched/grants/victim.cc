#include "sched/grants/victim.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

struct Candidate {
  Entry* entry = nullptr;
  int32_t priority = 0;  // only compared under the priority policy
  int64_t recompute_tokens = 0;
  int64_t useful_blocks = 0;
  int64_t deadline_us = 0;
};

bool may_be_preempted_for(const Entry& candidate, const Entry& requester, SchedulingPolicy policy) {
  if (&candidate == &requester || candidate.state != EntryState::kRunning || candidate.hard)
    return false;
  if (candidate.is_beam() && candidate.beam_leader == requester.beam_leader) return false;
  if (requester.hard) return true;
  if (policy == SchedulingPolicy::kPriority &&
      candidate.request.priority != requester.request.priority) {
    return candidate.request.priority > requester.request.priority;
  }
  return requester.arrived_before(candidate);
}

// Returns how many of the freed blocks are useful; if `needed` names none, blocks of any pool are.
int64_t num_useful(const BlockCounts& freed, const BlockCounts& needed) {
  if (needed.total() == 0) return std::min<int64_t>(freed.total(), 1);
  int64_t sum = 0;
  for (size_t i = 0; i < kNumKvPools; ++i) sum += std::min(freed.counts[i], needed.counts[i]);
  return sum;
}

bool better_victim(const Candidate& a, const Candidate& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  if ((a.useful_blocks == 0) != (b.useful_blocks == 0)) return b.useful_blocks == 0;
  // The same as a.tokens / a.blocks < b.tokens / b.blocks, without division.
  const int64_t left = a.recompute_tokens * std::max<int64_t>(b.useful_blocks, 1);
  const int64_t right = b.recompute_tokens * std::max<int64_t>(a.useful_blocks, 1);
  if (left != right) return left < right;
  if (a.deadline_us != b.deadline_us) return a.deadline_us > b.deadline_us;
  return b.entry->arrived_before(*a.entry);
}

}  // namespace

Entry& choose_victim(std::span<Entry* const> running, Entry& requester,
                     const BlockCounts& num_needed_blocks, const KvManager& kv,
                     SchedulingPolicy policy) {
  Candidate best;
  int32_t num_looked_at = 0;
  for (size_t i = running.size(); i-- > 0 && num_looked_at < kMaxVictimCandidates;) {
    Entry& entry = *running[i];
    if (!may_be_preempted_for(entry, requester, policy)) continue;
    ++num_looked_at;
    const Candidate candidate{
        .entry = &entry,
        .priority = policy == SchedulingPolicy::kPriority ? entry.request.priority : 0,
        .recompute_tokens =
            entry.request.num_computed_tokens - kv.tables().num_shared_tokens(entry.sequence),
        .useful_blocks =
            num_useful(kv.tables().num_exclusive_blocks(entry.sequence), num_needed_blocks),
        .deadline_us = entry.request.deadline_us.value_or(std::numeric_limits<int64_t>::max())};
    if (best.entry == nullptr || better_victim(candidate, best)) best = candidate;
  }
  return best.entry == nullptr ? requester : *best.entry;
}

}  // namespace quire
