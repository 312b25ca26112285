// Scheduler: requests come and go. Planning is in scheduler_step.cc, outcomes are in
// scheduler_update.cc.
#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/scheduler_impl.h"

namespace quire {

Scheduler::Scheduler(const SchedulerConfig& config, KvManager& kv, Drafter* drafter)
    : impl_(std::make_unique<Impl>(config, kv, drafter)) {}
Scheduler::~Scheduler() = default;

Status Scheduler::add(Request request, int64_t) { return impl_->add(std::move(request)); }
Status Scheduler::check_queue_room(int32_t num_requests, int64_t num_tokens) const {
  return impl_->limits_.check_room(num_requests, num_tokens);
}
int64_t Scheduler::retry_after_s() const { return impl_->limits_.retry_after_s(); }
StepPlan& Scheduler::schedule(int64_t now_us) { return impl_->schedule(now_us); }
std::span<const RequestUpdate> Scheduler::update(const StepResult& result, int64_t now_us) {
  return impl_->update(result, now_us);
}
int32_t Scheduler::max_decode_run() const { return impl_->max_decode_run(); }
void Scheduler::run_decodes(int64_t begin_us, std::span<const int64_t> end_us,
                            DecodeTokens& tokens) {
  impl_->run_decodes(begin_us, end_us, tokens);
}
void Scheduler::move_beams(std::span<const BeamMove> moves) { impl_->note_moves(moves); }
void Scheduler::hold(RequestId id, bool held) { impl_->hold(id, held); }
bool Scheduler::finish(RequestId id, RequestStatus status) { return impl_->finish(id, status); }
std::span<const RequestId> Scheduler::expire(int64_t now_us) { return impl_->expire(now_us); }
const Request* Scheduler::find(RequestId id) const {
  const Entry* entry = impl_->find(id);
  return entry == nullptr ? nullptr : &entry->request;
}
bool Scheduler::has_unfinished() const { return impl_->num_waiting() + impl_->num_running() > 0; }
int32_t Scheduler::num_running() const { return impl_->num_running(); }
int32_t Scheduler::num_waiting() const { return impl_->num_waiting(); }
SchedulerStats Scheduler::stats() const { return impl_->stats(); }
std::span<const AdapterUse> Scheduler::adapter_uses() const { return impl_->adapter_uses(); }
const EncoderCacheStats& Scheduler::encoder_stats() const { return impl_->encoder_stats(); }
const SchedulerConfig& Scheduler::config() const { return impl_->config_; }
void Scheduler::set_step_times(const StepTimeTable& table) { impl_->set_step_times(table); }
void Scheduler::set_row_times(const RowTimes& times) { impl_->set_row_times(times); }
KvManager& Scheduler::kv() { return impl_->kv_; }
Status Scheduler::check_integrity() const { return impl_->check_integrity(); }

Scheduler::Impl::Impl(const SchedulerConfig& config, KvManager& kv, Drafter* drafter)
    : config_(config),
      kv_(kv),
      drafter_(config.num_speculative_tokens > 0 ? drafter : nullptr),
      draft_planner_(config.draft_planner),
      stops_for_forks_(kv.spec().uses(KvPool::kState) && config.enable_chunked_prefill),
      limits_(config),
      waiting_(config_),
      step_times_(config.step_time.predicted),
      media_({.encoder_cache_tokens = config.encoder_cache_tokens,
              .max_num_batched_tokens = config.max_num_batched_tokens,
              .is_bidirectional = config.media_is_bidirectional,
              .is_chunked = config.enable_chunked_prefill}),
      adapters_(config.max_loras) {
  const Status valid = config.validate();
  QUIRE_CHECK(valid.ok(), "{}", valid.message());
  QUIRE_CHECK(drafter_ == nullptr || !kv.spec().uses(KvPool::kState),
              "a draft that is refused would leave its mark on the states of layers");
  const int32_t max_step = kv.options().max_step_tokens;
  QUIRE_CHECK(max_step == 0 || max_step >= config.max_uncommitted_tokens(),
              "KvOptions::max_step_tokens {} is below what may be under way of one request, {}",
              max_step, config.max_uncommitted_tokens());
  running_.reserve(static_cast<size_t>(config.max_running()));
  by_priority_.reserve(static_cast<size_t>(config.max_running()));
  draft_queries_.reserve(static_cast<size_t>(config.max_running()));
  draft_entries_.reserve(static_cast<size_t>(config.max_running()));
  draft_candidates_.reserve(static_cast<size_t>(config.max_running()));
}

Status Scheduler::Impl::check_request(const Request& request) const {
  if (request.params == nullptr)
    return invalid_argument("request {}: sampling parameters are missing", request.id.value);
  if (by_id_.contains(request.id))
    return invalid_argument("request id {} is in use", request.id.value);
  if (request.token_ids.empty())
    return invalid_argument("the prompt is empty: expected at least one token");
  const int64_t room = int64_t{config_.max_model_len} - (samples(request.kind) ? 1 : 0);
  if (static_cast<int64_t>(request.token_ids.size()) > room) {
    return invalid_argument(
        "the prompt has {} tokens: expected at most {} (the model's length is {} tokens, output "
        "included)",
        request.token_ids.size(), room, config_.max_model_len);
  }
  if (request.kind == RequestKind::kBeam) QUIRE_RETURN_IF_ERROR(check_beam(request));
  const BlockCounts num_blocks = kv_.tables().blocks_for(max_kv_tokens(request));
  const BlockCounts num_usable = kv_.num_usable_blocks();
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (num_blocks[pool] <= num_usable[pool]) continue;
    return too_large("the request may grow to {} tokens, which take {} {} blocks: the cache has {}",
                     max_kv_tokens(request), num_blocks[pool],
                     pool == KvPool::kState ? "state" : "KV", num_usable[pool]);
  }
  QUIRE_RETURN_IF_ERROR(media_.check(request));
  return check_fork(request);
}

bool same_media(const MediaSpan& a, const MediaSpan& b) {
  return a.begin == b.begin && a.end == b.end && a.first == b.first && a.item->key == b.item->key;
}

// A fork shares its leader's KV, so it must have the very same prompt under the same keys.
Status Scheduler::Impl::check_fork(const Request& request) const {
  if (!request.fork_of) return {};
  const Entry* leader = find(*request.fork_of);
  if (leader == nullptr) return {};
  const auto prompt_end = leader->request.token_ids.begin() + leader->request.num_prompt_tokens;
  if (leader->request.cache_keys != request.cache_keys ||
      !std::equal(leader->request.token_ids.begin(), prompt_end, request.token_ids.begin(),
                  request.token_ids.end()) ||
      !std::ranges::equal(leader->request.media, request.media, same_media)) {
    return invalid_argument("request {} forks {}: expected the same prompt and cache keys",
                            request.id.value, request.fork_of->value);
  }
  return {};
}

int32_t Scheduler::Impl::max_kv_tokens(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.token_ids.size());
  if (!samples(request.kind)) return static_cast<int32_t>(prompt);
  const int64_t longest =
      std::min<int64_t>(prompt + request.params->max_tokens, config_.max_model_len);
  return static_cast<int32_t>(std::max(prompt, longest - 1));  // the last token is never computed
}

Entry& Scheduler::Impl::new_entry(Request request) {
  Entry* entry;
  if (unused_entries_.empty()) {
    entry = &entries_.emplace_back();
  } else {
    entry = unused_entries_.back();
    unused_entries_.pop_back();
  }
  entry->request = std::move(request);
  Request& r = entry->request;
  r.num_prompt_tokens = r.num_tokens();
  r.num_computed_tokens = r.num_cached_tokens = r.num_preemptions = 0;
  r.status = RequestStatus::kWaiting;
  entry->max_kv_tokens = max_kv_tokens(r);
  entry->is_short = entry->max_kv_tokens < config_.express_tokens &&
                    config_.num_express_seqs() > 0 && r.kind != RequestKind::kBeam;
  entry->hard = entry->is_short || config_.max_preemptions == 0;
  return *entry;
}

Status Scheduler::Impl::add(Request request) {
  QUIRE_RETURN_IF_ERROR(check_request(request));
  const Entry* leader = request.fork_of ? find(*request.fork_of) : nullptr;
  const bool waits = leader != nullptr && leader->state != EntryState::kFinished &&
                     leader->request.num_computed_tokens <
                         leader->request.num_prompt_tokens - (stops_for_forks_ ? 1 : 0);
  int64_t num_tokens = 1;  // a fork computes one token of its prompt
  if (leader == nullptr) {
    const auto prompt = static_cast<int64_t>(request.token_ids.size());
    const bool reads = request.reads_prefix_cache();
    num_tokens = std::max<int64_t>(
        1,
        prompt - (reads ? kv_.probe(request.token_ids, request.cache_keys, request.media).num_tokens
                        : 0));
  }
  if (Status room = limits_.check_room(1, num_tokens); !room.ok()) {
    ++stats_.num_refused;
    return room;
  }
  limits_.enter(num_tokens);
  Entry& entry = new_entry(std::move(request));
  adapters_.add_waiting(entry.request.adapter.get(), 1);
  entry.num_queued_tokens = num_tokens;
  by_id_.emplace(entry.request.id, &entry);
  if (entry.request.deadline_us) deadlines_.emplace(*entry.request.deadline_us, entry.request.id);
  if (entry.request.kind == RequestKind::kBeam) {
    join_beams(entry);
  } else if (waits) {
    entry.state = EntryState::kForkWaiting;
    fork_waiters_[*entry.request.fork_of].push_back(&entry);
    ++num_fork_waiting_;
  } else {
    waiting_.insert(entry);
  }
  return {};
}

void Scheduler::Impl::leave_queue_accounting(Entry& entry) {
  if (entry.ever_admitted) return;
  entry.ever_admitted = true;
  limits_.leave(entry.num_queued_tokens);
}

void Scheduler::Impl::release_fork_waiters(RequestId leader) {
  const auto it = fork_waiters_.find(leader);
  if (it == fork_waiters_.end()) return;
  for (Entry* entry : it->second) {
    entry->state = EntryState::kWaiting;
    waiting_.insert(*entry);
    --num_fork_waiting_;
  }
  fork_waiters_.erase(it);
}

void Scheduler::Impl::remove_fork_waiter(Entry& entry) {
  const auto it = fork_waiters_.find(*entry.request.fork_of);
  QUIRE_CHECK(it != fork_waiters_.end(), "S-3: request {} waits for nobody",
              entry.request.id.value);
  std::erase(it->second, &entry);
  if (it->second.empty()) fork_waiters_.erase(it);
  --num_fork_waiting_;
}

void Scheduler::Impl::retire(Entry& entry, RequestStatus status) {
  leave_queue_accounting(entry);
  media_.drop(entry.request, status != RequestStatus::kFinishedError, entry.media);
  if (entry.state == EntryState::kRunning) store_in_files(entry, true);
  if (entry.has_sequence) kv_.close(entry.sequence);
  entry.has_sequence = false;
  if (entry.known_to_executor) dropped_.push_back(entry.request.id);
  entry.known_to_executor = false;
  if (entry.state == EntryState::kRunning) {
    if (entry.hard) --num_hard_running_;
    if (entry.is_short) --num_short_running_;
    adapters_.add_running(entry.request.adapter.get(), -1);
  } else {
    adapters_.add_waiting(entry.request.adapter.get(), -1);
  }
  if (entry.request.deadline_us) deadlines_.erase({*entry.request.deadline_us, entry.request.id});
  entry.state = EntryState::kFinished;
  entry.request.status = status;
  entry.num_flights = 0;
  entry.num_granted = 0;
  entry.drafts.clear();
  if (drafter_ != nullptr) drafter_->forget(entry.request.id);
  finished_.push_back(&entry);
  release_fork_waiters(entry.request.id);
}

void Scheduler::Impl::compact_running() {
  std::erase_if(running_, [](const Entry* entry) { return entry->state != EntryState::kRunning; });
}

bool Scheduler::Impl::finish(RequestId id, RequestStatus status) {
  QUIRE_CHECK(is_finished(status), "finish() needs a finished status, got {}",
              static_cast<int>(status));
  const auto it = by_id_.find(id);
  if (it == by_id_.end() || it->second->state == EntryState::kFinished) return false;
  Entry& entry = *it->second;
  if (entry.is_beam()) {
    retire_beams(*entry.beam_leader, status);
    compact_running();
    return true;
  }
  const EntryState before = entry.state;
  if (before == EntryState::kWaiting) waiting_.erase(entry);
  if (before == EntryState::kForkWaiting) remove_fork_waiter(entry);
  retire(entry, status);
  if (before == EntryState::kRunning) compact_running();
  return true;
}

void Scheduler::Impl::hold(RequestId id, bool held) {
  const auto it = by_id_.find(id);
  if (it != by_id_.end()) it->second->held = held;
}

std::span<const RequestId> Scheduler::Impl::expire(int64_t now_us) {
  expired_.clear();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_us) {
    const RequestId id = deadlines_.begin()->second;
    expired_.push_back(id);
    finish(id, RequestStatus::kFinishedError);
  }
  return expired_;
}

void Scheduler::Impl::recycle_finished() {
  for (Entry* entry : finished_) {
    by_id_.erase(entry->request.id);
    *entry = {};
    unused_entries_.push_back(entry);
  }
  finished_.clear();
}

const Entry* Scheduler::Impl::find(RequestId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second;
}

SchedulerStats Scheduler::Impl::stats() const {
  SchedulerStats stats = stats_;
  stats.num_running = num_running();
  stats.num_waiting = num_waiting();
  stats.num_fork_waiting = num_fork_waiting_;
  stats.num_preempted_now = num_waiting() - limits_.num_queued_reqs();
  stats.num_queued_tokens = limits_.num_queued_tokens();
  stats.prefill_tokens_per_s = limits_.prefill_tokens_per_s();
  return stats;
}

}  // namespace quire
