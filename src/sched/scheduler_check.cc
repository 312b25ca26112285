// Scheduler: S-1 .. S-3 and S-9 checked against everything it holds. For tests and debug builds.
#include "sched/scheduler_impl.h"

namespace quire {

Status Scheduler::Impl::check_entry(const Entry& entry) const {
  const Request& request = entry.request;
  const bool running = entry.state == EntryState::kRunning;
  if (!running && request.num_computed_tokens != 0 && entry.state != EntryState::kFinished) {
    return internal_error("S-3: waiting request {} has {} computed tokens", request.id.value,
                          request.num_computed_tokens);
  }
  if (entry.in_flight()) {
    const int64_t end = entry.next_position();
    if (!running || entry.num_tokens_in_flight() < entry.num_flights || end > entry.num_tokens() ||
        entry.num_tokens() > config_.max_model_len + 1) {
      return internal_error("S-1: request {} computes {} tokens after {} of {}", request.id.value,
                            entry.num_tokens_in_flight(), request.num_computed_tokens,
                            entry.num_tokens());
    }
    for (int32_t g = 0; g < kv_.num_groups(); ++g) {
      const auto slots =
          static_cast<int64_t>(kv_.tables().table(entry.sequence, g).size()) *
          kv_.spec().pool(kv_.spec().groups[static_cast<size_t>(g)].pool()).block_size;
      if (end > slots)
        return internal_error("S-2: request {} has {} slots for {} tokens", request.id.value, slots,
                              end);
    }
  }
  return {};
}

Status Scheduler::Impl::check_membership() const {
  size_t num_waiting = 0;
  size_t num_fork_waiting = 0;
  size_t num_running = 0;
  int32_t num_queued = 0;
  int32_t num_hard = 0;
  int32_t num_short = 0;
  int64_t num_queued_tokens = 0;
  for (const Entry& entry : entries_) {
    const auto it = by_id_.find(entry.request.id);
    if (it == by_id_.end() || it->second != &entry) continue;  // a record without a request
    QUIRE_RETURN_IF_ERROR(check_entry(entry));
    num_waiting += entry.state == EntryState::kWaiting;
    num_fork_waiting += entry.state == EntryState::kForkWaiting;
    num_running += entry.state == EntryState::kRunning;
    num_hard += entry.state == EntryState::kRunning && entry.hard;
    num_short += entry.state == EntryState::kRunning && entry.is_short;
    if (entry.state == EntryState::kFinished || entry.ever_admitted) continue;
    ++num_queued;
    num_queued_tokens += entry.num_queued_tokens;
  }
  for (const Entry* entry : running_) {
    if (entry->state != EntryState::kRunning) {
      return internal_error("S-3: request {} is in the running list and not running",
                            entry->request.id.value);
    }
  }
  for (const WaitingQueue::Item& item : waiting_) {
    if (item.entry->state != EntryState::kWaiting || item.entry->request.id != item.id) {
      return internal_error("S-3: request {} is in the waiting queue and not waiting",
                            item.id.value);
    }
  }
  if (num_waiting != static_cast<size_t>(waiting_.size()) || num_running != running_.size() ||
      num_fork_waiting != static_cast<size_t>(num_fork_waiting_) || num_hard != num_hard_running_ ||
      num_short != num_short_running_) {
    return internal_error(
        "S-3: {} waiting, {} fork-waiting, {} running requests; the lists have {}, {}, {}",
        num_waiting, num_fork_waiting, num_running, waiting_.size(), num_fork_waiting_,
        running_.size());
  }
  if (config_.max_loras > 0 && adapters_.num_running() > config_.max_loras) {
    return internal_error("S-10: {} adapters run, at most {}", adapters_.num_running(),
                          config_.max_loras);
  }
  if (num_queued != limits_.num_queued_reqs() || num_queued_tokens != limits_.num_queued_tokens() ||
      num_queued > config_.max_num_queued_reqs || num_queued_tokens > limits_.max_queued_tokens()) {
    return internal_error("S-9: {} requests with {} tokens are queued, {} and {} counted",
                          num_queued, num_queued_tokens, limits_.num_queued_reqs(),
                          limits_.num_queued_tokens());
  }
  return {};
}

Status Scheduler::Impl::check_integrity() const {
  QUIRE_RETURN_IF_ERROR(check_membership());
  QUIRE_RETURN_IF_ERROR(media_.cache().check());
  return kv_.check_integrity();
}

}  // namespace quire
