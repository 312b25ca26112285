#include "sched/grants/running_grants.h"

#include <algorithm>

#include "base/check.h"
#include "sched/grants/victim.h"

namespace quire {

// A long prompt leaves a token of the budget for each request behind it, so that decodes do not
// wait for another request's prefill.
inline int32_t RunningGrants::num_timely(const Entry& entry, int32_t num_behind) const {
  const int32_t position = entry.next_position();
  const int32_t num_allowed =
      budget_.rules.clip_to_fork(entry, position, entry.num_allowed_tokens(position));
  const int32_t most =
      budget_.rules.clip_tokens(num_allowed, std::max(1, budget_.num_tokens - num_behind));
  return budget_.time.clip(entry, position, most);
}

void RunningGrants::grant() {
  const std::vector<Entry*>& order = budget_.time.order();
  auto num_behind = static_cast<int32_t>(order.size());
  for (size_t i = 0; i < order.size() && budget_.has_room(); ++i) {
    Entry& entry = *order[i];
    --num_behind;
    if (entry.state != EntryState::kRunning || !budget_.rules.may_compute(entry)) continue;
    if (entry.is_beam()) beams_.take_prompt(entry);
    if (entry.num_allowed_tokens(entry.next_position()) <= 0) continue;  // held
    const int32_t timely = num_timely(entry, num_behind);
    QUIRE_DCHECK(timely >= 1, "S-1: running request {} has nothing to compute",
                 entry.request.id.value);
    const int32_t n = state_.roster.media.clip(entry.request, entry.next_position(), timely,
                                               budget_.num_tokens, entry.media);
    if (n > 0 && make_room(entry, n)) budget_.grant(entry, n);
  }
  if (preemptions_.any()) state_.roster.compact_running();
}

bool RunningGrants::make_room(Entry& entry, int32_t num_tokens) {
  BlockTables& tables = state_.kv.tables();
  BlockPromises& promises = budget_.promises;
  if (tables.has_slots(entry.sequence, int64_t{entry.next_position()} + num_tokens)) return true;
  const BlockCounts own_promise = entry.hard ? promises.owed(entry) : BlockCounts{};
  AllocateArgs args{.tokens = entry.request.token_ids,
                    .num_computed_tokens = entry.next_position(),
                    .num_new_tokens = num_tokens,
                    .num_reserved_blocks = promises.hard - own_promise};
  while (!tables.allocate(entry.sequence, args)) {
    // Steps under way may end requests and free blocks, so a request that has one waits for it
    // rather than preempt.
    if (entry.in_flight()) return false;
    const BlockCounts needed =
        tables.blocks_missing(entry.sequence, int64_t{args.num_computed_tokens} + num_tokens);
    Entry& victim =
        choose_victim(state_.roster.running(), entry, needed, state_.kv, state_.config.policy);
    preemptions_.preempt(victim);
    if (&victim == &entry) return false;
    args.num_reserved_blocks = promises.hard - own_promise;
  }
  if (entry.hard) promises.hard += promises.owed(entry) - own_promise;
  return true;
}

}  // namespace quire
