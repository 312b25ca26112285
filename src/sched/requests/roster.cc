#include "sched/requests/roster.h"

#include <algorithm>

#include "base/check.h"

namespace quire {

int32_t max_kv_tokens(const SchedulerConfig& config, const Request& request) {
  const auto prompt = static_cast<int64_t>(request.token_ids.size());
  if (!samples(request.kind)) return static_cast<int32_t>(prompt);
  const int64_t longest =
      std::min<int64_t>(prompt + request.params->max_tokens, config.max_model_len);
  return static_cast<int32_t>(std::max(prompt, longest - 1));
}

Roster::Roster(const SchedulerConfig& config, KvManager& kv, Drafter* drafter)
    : waiting(config),
      limits(config),
      media({.encoder_cache_tokens = config.encoder_cache_tokens,
             .encoder_step_tokens = config.encoder_step_tokens,
             .max_num_batched_tokens = config.max_num_batched_tokens,
             .is_bidirectional = config.media_is_bidirectional,
             .is_chunked = config.enable_chunked_prefill}),
      adapters(config.max_loras),
      config_(config),
      kv_(kv),
      drafter_(drafter) {
  running_.reserve(static_cast<size_t>(config.max_running()));
}

Entry& Roster::add(Request request, int64_t num_queued_tokens) {
  limits.enter(num_queued_tokens);
  if (unused_entries_.empty()) {
    unused_entries_.push_back(&entries_.emplace_back());
  }
  Entry& entry = *unused_entries_.back();
  unused_entries_.pop_back();
  entry.request = std::move(request);
  Request& r = entry.request;
  r.num_prompt_tokens = r.num_tokens();
  r.num_computed_tokens = r.num_cached_tokens = r.num_preemptions = 0;
  r.status = RequestStatus::kWaiting;
  entry.max_kv_tokens = max_kv_tokens(config_, r);
  entry.is_short = entry.max_kv_tokens < config_.express_tokens && config_.num_express_seqs() > 0 &&
                   r.kind != RequestKind::kBeam;
  entry.hard = entry.is_short || config_.max_preemptions == 0;
  entry.num_queued_tokens = num_queued_tokens;
  adapters.add_waiting(r.adapter.get(), 1);
  by_id_.emplace(r.id, &entry);
  if (r.deadline_us) deadlines_.emplace(*r.deadline_us, r.id);
  return entry;
}

// A request counts against the queue's limits until it is first admitted; this ends that.
static void leave_limits(Entry& entry, QueueLimits& limits) {
  if (entry.ever_admitted) return;
  entry.ever_admitted = true;
  limits.leave(entry.num_queued_tokens);
}

void Roster::start(Entry& entry) {
  leave_limits(entry, limits);
  entry.request.status = RequestStatus::kRunning;
  entry.state = EntryState::kRunning;
  adapters.add_running(entry.request.adapter.get(), 1);
  adapters.add_waiting(entry.request.adapter.get(), -1);
  if (entry.hard) ++num_hard_running_;
  if (entry.is_short) ++num_short_running_;
  running_.push_back(&entry);
}

void Roster::stop(Entry& entry) {
  entry.num_granted = 0;
  entry.drafts.clear();
  entry.num_flights = 0;  // the outcomes of steps under way are ignored
  if (entry.hard) --num_hard_running_;
  if (entry.is_short) --num_short_running_;
  Request& request = entry.request;
  media.drop(request, true, entry.media);
  store_in_files(entry, true);
  kv_.tables().free(entry.sequence);
  if (entry.known_to_executor) dropped.push_back(request.id);
  entry.known_to_executor = false;
  request.num_computed_tokens = 0;
  request.status = RequestStatus::kPreempted;
  ++request.num_preemptions;
  entry.hard = entry.is_short || request.num_preemptions >= config_.max_preemptions;
  adapters.add_waiting(request.adapter.get(), 1);
  adapters.add_running(request.adapter.get(), -1);
  entry.state = EntryState::kWaiting;
  entry.refused_available_blocks = kNothingAvailable;
  entry.num_overtaken = 0;
}

void Roster::retire(Entry& entry, RequestStatus status) {
  Request& request = entry.request;
  leave_limits(entry, limits);
  media.drop(request, status != RequestStatus::kFinishedError, entry.media);
  if (entry.state == EntryState::kRunning) store_in_files(entry, true);
  if (entry.has_sequence) kv_.close(entry.sequence);
  entry.has_sequence = false;
  if (entry.known_to_executor) dropped.push_back(request.id);
  entry.known_to_executor = false;
  if (entry.state == EntryState::kRunning) {
    if (entry.hard) --num_hard_running_;
    if (entry.is_short) --num_short_running_;
    adapters.add_running(request.adapter.get(), -1);
  } else {
    adapters.add_waiting(request.adapter.get(), -1);
  }
  if (request.deadline_us) deadlines_.erase({*request.deadline_us, request.id});
  entry.state = EntryState::kFinished;
  request.status = status;
  entry.num_flights = 0;
  entry.num_granted = 0;
  entry.drafts.clear();
  if (drafter_ != nullptr) drafter_->forget(request.id);
  finished_.push_back(&entry);
  release_forks(request.id);
}

void Roster::queue_forks(RequestId leader) {
  for (Entry* entry : forks.release(leader)) {
    entry->state = EntryState::kWaiting;
    waiting.insert(*entry);
  }
}

void Roster::compact_running() {
  std::erase_if(running_, [](const Entry* entry) { return entry->state != EntryState::kRunning; });
}

void Roster::recycle_finished() {
  for (Entry* entry : finished_) {
    by_id_.erase(entry->request.id);
    *entry = {};
    unused_entries_.push_back(entry);
  }
  finished_.clear();
}

void Roster::open_sequence(Entry& entry) {
  if (entry.has_sequence) return;
  const Request& request = entry.request;
  entry.sequence = kv_.open(request.id, request.cache_keys, request.media);
  entry.has_sequence = true;
}

void Roster::store_text_in_files(const Entry& entry, bool whole) {
  const Request& request = entry.request;
  const auto num_computed = static_cast<size_t>(request.num_computed_tokens);
  kv_.store_in_files(entry.sequence, std::span(request.token_ids).first(num_computed), whole);
}

std::optional<RequestId> Roster::find_expired(int64_t now_us) const {
  if (deadlines_.empty() || deadlines_.begin()->first > now_us) return std::nullopt;
  return deadlines_.begin()->second;
}

}  // namespace quire
