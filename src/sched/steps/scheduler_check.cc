#include "sched/steps/scheduler_check.h"

namespace quire {
namespace {

struct Counts {
  int64_t num_waiting = 0;
  int64_t num_fork_waiting = 0;
  int64_t num_running = 0;
  int64_t num_hard = 0;
  int64_t num_short = 0;
  int64_t num_queued = 0;
  int64_t num_queued_tokens = 0;

  void add(const Entry& entry) {
    num_waiting += entry.state == EntryState::kWaiting;
    num_fork_waiting += entry.state == EntryState::kForkWaiting;
    num_running += entry.state == EntryState::kRunning;
    num_hard += entry.state == EntryState::kRunning && entry.hard;
    num_short += entry.state == EntryState::kRunning && entry.is_short;
    if (entry.state == EntryState::kFinished || entry.ever_admitted) return;
    ++num_queued;
    num_queued_tokens += entry.num_queued_tokens;
  }
};

Status check_slots(const Entry& entry, const KvManager& kv) {
  const int64_t end = entry.next_position();
  for (int32_t g = 0; g < kv.tables().sizing().num_groups(); ++g) {
    const int32_t block_size =
        kv.spec().pool(kv.spec().groups[static_cast<size_t>(g)].pool()).block_size;
    const auto slots =
        static_cast<int64_t>(kv.tables().table(entry.sequence, g).size()) * block_size;
    if (end > slots) {
      return internal_error("S-2: request {} has {} slots for {} tokens", entry.request.id.value,
                            slots, end);
    }
  }
  return {};
}

Status check_entry(const Entry& entry, const SchedulerState& state) {
  const Request& request = entry.request;
  const bool running = entry.state == EntryState::kRunning;
  if (!running && request.num_computed_tokens != 0 && entry.state != EntryState::kFinished) {
    return internal_error("S-3: waiting request {} has {} computed tokens", request.id.value,
                          request.num_computed_tokens);
  }
  if (!entry.in_flight()) return {};
  if (!running || entry.num_tokens_in_flight() < entry.num_flights ||
      entry.next_position() > entry.num_tokens() ||
      entry.num_tokens() > state.config.max_model_len + 1) {
    return internal_error("S-1: request {} computes {} tokens after {} of {}", request.id.value,
                          entry.num_tokens_in_flight(), request.num_computed_tokens,
                          entry.num_tokens());
  }
  return check_slots(entry, state.kv);
}

Status check_lists(const Roster& roster, const Counts& counts) {
  for (const Entry* entry : roster.running()) {
    if (entry->state != EntryState::kRunning) {
      return internal_error("S-3: request {} is in the running list and not running",
                            entry->request.id.value);
    }
  }
  for (const WaitingQueue::Item& item : roster.waiting) {
    if (item.entry->state != EntryState::kWaiting || item.entry->request.id != item.id) {
      return internal_error("S-3: request {} is in the waiting queue and not waiting",
                            item.id.value);
    }
  }
  if (counts.num_waiting == roster.waiting.size() && counts.num_running == roster.num_running() &&
      counts.num_fork_waiting == roster.forks.size() &&
      counts.num_hard == roster.num_hard_running() &&
      counts.num_short == roster.num_short_running()) {
    return {};
  }
  return internal_error(
      "S-3: {} waiting, {} fork-waiting, {} running requests; the lists have {}, {}, {}",
      counts.num_waiting, counts.num_fork_waiting, counts.num_running, roster.waiting.size(),
      roster.forks.size(), roster.num_running());
}

Status check_limits(const SchedulerState& state, const Counts& counts) {
  const SchedulerConfig& config = state.config;
  const AdapterUses& adapters = state.roster.adapters;
  if (config.max_loras > 0 && adapters.num_running() > config.max_loras) {
    return internal_error("S-10: {} adapters run, at most {}", adapters.num_running(),
                          config.max_loras);
  }
  const QueueLimits& limits = state.roster.limits;
  if (counts.num_queued == limits.num_queued_reqs() &&
      counts.num_queued_tokens == limits.num_queued_tokens() &&
      counts.num_queued <= config.max_num_queued_reqs &&
      counts.num_queued_tokens <= limits.max_queued_tokens()) {
    return {};
  }
  return internal_error("S-9: {} requests with {} tokens are queued, {} and {} counted",
                        counts.num_queued, counts.num_queued_tokens, limits.num_queued_reqs(),
                        limits.num_queued_tokens());
}

}  // namespace

Status check_scheduler(const SchedulerState& state) {
  const Roster& roster = state.roster;
  Counts counts;
  for (const Entry& entry : roster.entries()) {
    if (roster.find(entry.request.id) != &entry) continue;  // a record without a request
    QUIRE_RETURN_IF_ERROR(check_entry(entry, state));
    counts.add(entry);
  }
  QUIRE_RETURN_IF_ERROR(check_lists(roster, counts));
  QUIRE_RETURN_IF_ERROR(check_limits(state, counts));
  QUIRE_RETURN_IF_ERROR(roster.media.cache().check());
  return state.kv.check_integrity();
}

}  // namespace quire
