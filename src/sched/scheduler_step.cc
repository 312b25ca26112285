// Scheduler: planning a step. Running requests first, then waiting ones; blocks from KvManager,
// preemption when a running request cannot get any.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sched/scheduler_impl.h"
#include "sched/victim.h"

namespace quire {

StepPlan& Scheduler::Impl::schedule(int64_t now_us) {
  now_us_ = now_us;
  ++round_;
  recycle_finished();
  kv_.begin_step(now_us);
  media_.cache().begin_step();
  budget_ = config_.max_num_batched_tokens;
  preempted_ = false;
  move_beams();
  hard_owed_ = owed_blocks(true);
  bound_step_time();
  grant_running();
  if (!preempted_) {
    admit_waiting();
    grant_drafts();
  }
  build_plan();
#ifdef QUIRE_DEBUG_CHECKS
  const Status integrity = check_integrity();
  QUIRE_DCHECK(integrity.ok(), "{}", integrity.message());
#endif
  return plan_;
}

// --- Running requests ---

void Scheduler::Impl::grant_running() {
  auto behind = static_cast<int32_t>(running_.size());
  const std::vector<Entry*>& order = step_time_.by_priority ? by_priority_ : running_;
  for (size_t i = 0; i < order.size() && budget_ > 0; ++i) {
    Entry& entry = *order[i];
    --behind;
    if (entry.state != EntryState::kRunning || !may_compute(entry)) continue;
    if (entry.is_beam()) take_prompt(entry);
    if (entry.num_allowed_tokens(entry.next_position()) <= 0) continue;  // held
    // A long prompt leaves a token for each request behind it: decodes do not wait for somebody's
    // prefill.
    const int32_t num_allowed =
        clip_to_fork(entry, entry.next_position(), entry.num_allowed_tokens(entry.next_position()));
    const int32_t most = clip_tokens(num_allowed, std::max(1, budget_ - behind));
    const int32_t timely = clip_to_step_time(entry, entry.next_position(), most);
    QUIRE_DCHECK(timely >= 1, "S-1: running request {} has nothing to compute",
                 entry.request.id.value);
    const int32_t n =
        media_.clip(entry.request, entry.next_position(), timely, budget_, entry.media);
    if (n > 0 && make_room(entry, n)) grant(entry, n);
  }
  if (preempted_) compact_running();
}

// A step under way leaves the value of a token open, not its place: the next step may be planned
// unless the request is sure to end with that token, or somebody must see its value first.
bool Scheduler::Impl::may_compute(const Entry& entry) const {
  if (entry.num_allowed_tokens(entry.next_position()) <= 0) return false;
  if (entry.is_beam() && waits_for_prompt(entry)) return false;
  if (!entry.in_flight()) return true;
  if (!config_.async_scheduling || entry.num_flights == kMaxFlights) return false;
  if (stops_for_fork(entry, entry.next_position())) return false;
  const int32_t num_open = entry.num_open_tokens();
  const Request& request = entry.request;
  if (num_open > 0 && (request.waits_for_values || drafter_ != nullptr)) return false;
  return num_open == 0 || (request.num_output_tokens() + num_open < request.params->max_tokens &&
                           entry.num_tokens() < config_.max_model_len);
}

// A state is there until the next token is computed. So the leader of a fork group stops before the
// last token of its prompt, and goes on in the step in which those that wait copy its state.
bool Scheduler::Impl::stops_for_fork(const Entry& entry, int32_t position) const {
  return stops_for_forks_ && position == entry.request.num_prompt_tokens - 1 &&
         fork_waiters_.contains(entry.request.id);
}

int32_t Scheduler::Impl::clip_to_fork(const Entry& entry, int32_t position,
                                      int32_t num_tokens) const {
  const int32_t stop = entry.request.num_prompt_tokens - 1;
  if (position >= stop || !stops_for_fork(entry, stop)) return num_tokens;
  return std::min(num_tokens, stop - position);
}

int32_t Scheduler::Impl::clip_tokens(int32_t num_tokens, int32_t budget) const {
  const int32_t threshold = config_.long_prefill_token_threshold;
  if (config_.enable_chunked_prefill && threshold > 0) num_tokens = std::min(num_tokens, threshold);
  return std::min(num_tokens, budget);
}

bool Scheduler::Impl::make_room(Entry& entry, int32_t num_tokens) {
  if (kv_.tables().has_slots(entry.sequence, int64_t{entry.next_position()} + num_tokens))
    return true;
  const BlockCounts own_promise = entry.hard ? owed_blocks(entry) : BlockCounts{};
  AllocateArgs args{.tokens = entry.request.token_ids,
                    .num_computed_tokens = entry.next_position(),
                    .num_new_tokens = num_tokens,
                    .num_reserved_blocks = hard_owed_ - own_promise};
  while (!kv_.tables().allocate(entry.sequence, args)) {
    // Steps under way may end requests: whoever has one waits for it rather than preempt.
    if (entry.in_flight()) return false;
    const BlockCounts needed =
        kv_.tables().blocks_missing(entry.sequence, int64_t{args.num_computed_tokens} + num_tokens);
    Entry& victim = choose_victim(running_, entry, needed, kv_, config_.policy);
    preempt(victim);
    if (&victim == &entry) return false;
    args.num_reserved_blocks = hard_owed_ - own_promise;
  }
  if (entry.hard) hard_owed_ += owed_blocks(entry) - own_promise;
  return true;
}

// Recompute is the only kind of preemption: its full blocks stay in the prefix cache as long as
// nobody needs them.
void Scheduler::Impl::preempt(Entry& entry) {
  preempted_ = true;
  admission_paused_ = true;
  if (entry.is_beam()) return preempt_beams(*entry.beam_leader);
  stop_running(entry);
  waiting_.insert(entry);
}

void Scheduler::Impl::stop_running(Entry& entry) {
  budget_ += entry.num_granted;
  entry.num_granted = 0;
  entry.drafts.clear();
  entry.num_flights = 0;  // the outcomes of steps under way are ignored
  if (entry.hard) {
    --num_hard_running_;
    hard_owed_ -= owed_blocks(entry);
  }
  if (entry.is_short) --num_short_running_;
  media_.drop(entry.request, true, entry.media);
  store_in_files(entry, true);
  kv_.tables().free(entry.sequence);
  if (entry.known_to_executor) dropped_.push_back(entry.request.id);
  entry.known_to_executor = false;
  Request& request = entry.request;
  request.num_computed_tokens = 0;
  request.status = RequestStatus::kPreempted;
  ++request.num_preemptions;
  entry.hard = entry.is_short || request.num_preemptions >= config_.max_preemptions;
  adapters_.add_waiting(request.adapter.get(), 1);
  adapters_.add_running(request.adapter.get(), -1);
  entry.state = EntryState::kWaiting;
  entry.refused_available_blocks = kNothingAvailable;
  entry.num_overtaken = 0;
  ++stats_.num_preemptions;
}

void Scheduler::Impl::grant(Entry& entry, int32_t num_tokens) {
  if (step_time_.bounded && !decodes(entry)) {
    step_time_.prompt_us -=
        step_times_.prompt_factor() * step_times_.prompt_us(num_tokens, entry.next_position());
    step_time_.has_chunk = true;
  }
  entry.num_granted = num_tokens;
  budget_ -= num_tokens;
}

// --- What has been promised ---

// Blocks that a running request will take beyond what it has: its longest output when its
// reservation is hard, else the rest of its known tokens.
BlockCounts Scheduler::Impl::owed_blocks(const Entry& entry) const {
  if (entry.is_beam()) return owed_to_beam(entry);
  if (entry.hard) return kv_.tables().blocks_missing(entry.sequence, entry.max_kv_tokens);
  return config_.reserve_full_isl
             ? kv_.tables().blocks_missing(entry.sequence, entry.request.num_tokens())
             : BlockCounts{};
}

BlockCounts Scheduler::Impl::owed_blocks(bool hard_only) const {
  BlockCounts sum;
  if (hard_only && num_hard_running_ == 0) return sum;
  for (const Entry* entry : running_) {
    // Who computes all its tokens in this step has the blocks for them.
    const bool has_all = entry->num_granted >= entry->num_new_tokens() && entry->num_granted > 0;
    if (entry->hard || !(hard_only || has_all)) sum += owed_blocks(*entry);
  }
  return sum;
}

BlockCounts Scheduler::Impl::watermark_blocks() const {
  BlockCounts counts;
  if (running_.empty()) return counts;
  const BlockCounts usable = kv_.num_usable_blocks();
  for (size_t i = 0; i < kNumKvPools; ++i) {
    counts.counts[i] =
        std::llround(std::ceil(config_.watermark * static_cast<double>(usable.counts[i])));
  }
  return counts;
}

// After a preemption nobody is admitted until there is room again for the watermark and for each
// running request to grow by a block, or the next step would preempt once more.
bool Scheduler::Impl::admission_paused() {
  if (!admission_paused_) return false;
  const BlockCounts room = kv_.num_free_blocks() - owed_;
  const BlockCounts growth = kv_.tables().a_block_each() * std::ssize(running_);
  admission_paused_ = !running_.empty() && !(watermark_blocks() + growth).fits_in(room);
  return admission_paused_;
}

// --- Waiting requests ---

// Entries that a step passes because their adapter must wait.
constexpr int32_t kMostWithoutAdapter = 1024;

void Scheduler::Impl::admit_waiting() {
  if (waiting_.empty() || budget_ == 0) return;
  if (config_.batching == BatchingMode::kStaticBatches) {
    if (running_.empty()) batch_forming_ = true;
    if (!batch_forming_) return;
  }
  owed_ = owed_blocks(false);
  adapter_head_ = find_adapter_head();
  admit_short();
  if (admission_paused()) return;

  Entry* head = nullptr;  // the first that does not fit
  BlockHold head_prefix;  // until the round ends
  bool head_is_held = false;
  int32_t num_tried_past_head = 0;
  int32_t num_without_adapter = 0;
  auto it = waiting_.begin();
  while (it != waiting_.end() && budget_ > 0 && has_common_place()) {
    Entry& entry = *it->entry;
    if (!has_time_for(entry)) break;
    if (waits_for_adapter(entry)) {
      if (++num_without_adapter == kMostWithoutAdapter) break;
      ++it;
      continue;
    }
    if (head != nullptr && ++num_tried_past_head > config_.max_skip_ahead) break;
    const BlockCounts available = kv_.num_free_blocks() - owed_;
    Admission admission = Admission::kNoBlocks;
    if (has_place_for(entry) && !not_worth_a_try(entry, available)) {
      // Whoever passes the head must not evict the cached blocks that the head is going to hit.
      if (head != nullptr && !head_is_held && head->has_sequence) {
        head_prefix = kv_.hold(head->sequence, head->request.token_ids, find_hit(*head));
        head_is_held = true;
      }
      admission = try_admit(entry);
      if (admission == Admission::kNoBlocks) {
        entry.refused_available_blocks = available;
        entry.refused_round = round_;
      }
    }
    if (admission == Admission::kNoBudget) break;
    if (admission == Admission::kHeld) {
      ++it;
      continue;
    }
    if (admission == Admission::kAdmitted) {
      note_overtaken(entry);
      it = waiting_.erase(it);
      if (head != nullptr) {
        ++stats_.num_skip_aheads;
        if (++head->num_overtaken >= config_.max_overtakes) break;
      }
      continue;
    }
    if (head == nullptr) {
      head = &entry;
      ++stats_.num_head_waits;
      if (entry.num_overtaken >= config_.max_overtakes)
        break;  // from here on blocks are set aside for it
    }
    ++it;
  }
  if (config_.batching == BatchingMode::kStaticBatches) batch_forming_ = budget_ == 0;
}

// Short requests have some places of their own, also while admission pauses: what they will hold at
// most is small, and set aside for them when they are admitted.
void Scheduler::Impl::admit_short() {
  if (config_.batching != BatchingMode::kContinuous) return;
  while (num_short_running_ < config_.num_express_seqs() && budget_ > 0) {
    const auto it = waiting_.first_short();
    if (it == waiting_.end() || !has_time_for(*it->entry)) return;
    if (waits_for_adapter(*it->entry)) return;
    if (try_admit(*it->entry) != Admission::kAdmitted) return;
    note_overtaken(*it->entry);
    waiting_.erase(it);
  }
}

// The first of the queue that must wait until another adapter has ended.
Entry* Scheduler::Impl::find_adapter_head() const {
  if (config_.max_loras == 0 || adapters_.num_running() < config_.max_loras) return nullptr;
  int32_t num_seen = 0;
  for (const WaitingQueue::Item& item : waiting_) {
    if (!adapters_.has_room(item.entry->request.adapter.get())) return item.entry;
    if (++num_seen == kMostWithoutAdapter) break;
  }
  return nullptr;
}

// Once the first that waits for an adapter to end has been overtaken too often by requests with
// adapters, they all wait behind it.
bool Scheduler::Impl::waits_for_adapter(const Entry& entry) const {
  const Adapter* adapter = entry.request.adapter.get();
  if (adapter == nullptr) return false;
  const bool is_overdue =
      adapter_head_ != nullptr && adapter_head_->num_overtaken >= config_.max_overtakes;
  return is_overdue || !adapters_.has_room(adapter);
}

void Scheduler::Impl::note_overtaken(const Entry& admitted) {
  if (adapter_head_ != nullptr && admitted.request.adapter != nullptr)
    ++adapter_head_->num_overtaken;
}

// Whether there is a place that is not kept for short requests.
bool Scheduler::Impl::has_common_place() const {
  const int32_t num_express = std::min(num_short_running_, config_.num_express_seqs());
  return num_running() - num_express < config_.max_num_seqs;
}

// An entry that did not fit is looked at again when there is more room, or now and then, because
// its prefix may have been cached meanwhile.
bool Scheduler::Impl::not_worth_a_try(const Entry& entry, const BlockCounts& available) const {
  constexpr uint64_t kRoundsBetweenTries = 16;
  return !running_.empty() && available.fits_in(entry.refused_available_blocks) &&
         round_ - entry.refused_round < kRoundsBetweenTries;
}

PrefixHit Scheduler::Impl::find_hit(Entry& entry) {
  const Request& request = entry.request;
  if (!request.reads_prefix_cache()) return {};
  if (request.fork_of && request.num_output_tokens() == 0) {
    const Entry* leader = find(*request.fork_of);
    const bool is_there =
        leader != nullptr && leader->has_sequence && !(stops_for_forks_ && leader->in_flight());
    if (is_there) {
      const PrefixHit hit = kv_.tables().fork_hit(leader->sequence, request.num_prompt_tokens - 1);
      if (hit.num_tokens > 0) return hit;
    }
  }
  return kv_.lookup(entry.sequence, request.token_ids);
}

// What host memory has of the prompt comes back first, if the request then fits for sure. True: more
// of it is on its way from files.
bool Scheduler::Impl::promote_prefix(const Entry& entry) {
  const Request& request = entry.request;
  const BlockCounts room = kv_.num_free_blocks() - owed_ - watermark_blocks();
  const int32_t longest = entry.hard ? entry.max_kv_tokens : request.num_tokens();
  if (!kv_.has_host_tier() || !request.reads_prefix_cache() ||
      !kv_.tables().blocks_for(longest).fits_in(room))
    return false;
  kv_.promote(entry.sequence, request.token_ids);
  return request.media.empty() && kv_.load_from_files(entry.sequence, request.token_ids);
}

// Text alone: tokens of media do not tell what stands there.
void Scheduler::Impl::store_in_files(const Entry& entry, bool whole) {
  const Request& request = entry.request;
  if (kv_.files() == nullptr || !request.media.empty()) return;
  const auto num_computed = static_cast<size_t>(request.num_computed_tokens);
  kv_.store_in_files(entry.sequence, std::span(request.token_ids).first(num_computed), whole);
}

Scheduler::Impl::Admission Scheduler::Impl::try_admit(Entry& entry) {
  const Request& request = entry.request;
  if (!entry.has_sequence) {
    entry.sequence = kv_.open(request.id, request.cache_keys, request.media);
    entry.has_sequence = true;
  }
  if (promote_prefix(entry)) return Admission::kHeld;
  PrefixHit hit = find_hit(entry);
  const int32_t num_full = entry.hard                 ? entry.max_kv_tokens
                           : config_.reserve_full_isl ? request.num_tokens()
                                                      : 0;
  while (true) {
    const int32_t num_left =
        clip_to_fork(entry, hit.num_tokens, entry.num_allowed_tokens(hit.num_tokens));
    if (entry.held && (num_left == 0 || !config_.enable_chunked_prefill)) return Admission::kHeld;
    const int32_t timely = clip_to_step_time(entry, hit.num_tokens, clip_tokens(num_left, budget_));
    if (!config_.enable_chunked_prefill && timely < num_left) return Admission::kNoBudget;
    MediaGate::begin(request, hit.num_tokens, entry.media);
    const int32_t n = media_.clip(request, hit.num_tokens, timely, budget_, entry.media);
    if (n == 0 || (!config_.enable_chunked_prefill && n < num_left)) {
      media_.drop(request, false, entry.media);
      return Admission::kHeld;
    }
    const AllocateArgs args{
        .tokens = request.token_ids,
        .hit = hit,
        .num_new_tokens = n,
        .num_full_tokens = num_full,
        .num_reserved_blocks = owed_ + watermark_blocks() + owed_to_other_beams(entry)};
    if (kv_.tables().allocate(entry.sequence, args)) {
      join_running(entry, hit, n);
      return Admission::kAdmitted;
    }
    media_.drop(request, false, entry.media);
    // The copy of a partial block takes a block while its source still holds one.
    if (!hit.partial_block) return Admission::kNoBlocks;
    hit = kv_.lookup_whole_blocks(entry.sequence, request.token_ids);
  }
}

void Scheduler::Impl::join_running(Entry& entry, const PrefixHit& hit, int32_t num_tokens) {
  Request& request = entry.request;
  QUIRE_CHECK(hit.num_tokens < request.num_tokens(), "S-4: request {} hits all of its {} tokens",
              request.id.value, request.num_tokens());
  request.num_computed_tokens = hit.num_tokens;
  request.status = RequestStatus::kRunning;
  if (!entry.ever_admitted) {
    request.num_cached_tokens = hit.num_tokens;
    if (hit.from_fork) {
      ++stats_.num_forks;
    } else if (request.reads_prefix_cache()) {
      stats_.prefix_queries += request.num_tokens();
      stats_.prefix_hits += hit.num_tokens;
    }
  }
  leave_queue_accounting(entry);
  // Room for all that may come, so that no step of it allocates.
  request.token_ids.reserve(static_cast<size_t>(std::min<int64_t>(
      int64_t{request.num_prompt_tokens} + request.params->max_tokens, config_.max_model_len)));
  entry.state = EntryState::kRunning;
  adapters_.add_running(request.adapter.get(), 1);
  adapters_.add_waiting(request.adapter.get(), -1);
  if (entry.hard) ++num_hard_running_;
  if (entry.is_short) ++num_short_running_;
  running_.push_back(&entry);
  owed_ += owed_blocks(entry);
  grant(entry, num_tokens);
  if (entry.is_beam()) admit_beams(entry);
}

// --- The plan ---

std::vector<TokenId> Scheduler::Impl::copy_of_tokens(const Request& request) {
  std::vector<TokenId> copy;
  if (!spare_tokens_.empty()) {
    copy = std::move(spare_tokens_.back());
    spare_tokens_.pop_back();
  }
  copy.assign(request.token_ids.begin(), request.token_ids.end());
  return copy;
}

void Scheduler::Impl::build_plan() {
  constexpr size_t kMaxSpare = 4;
  for (NewRequest& added : plan_.new_requests) {
    if (spare_tokens_.size() < kMaxSpare) spare_tokens_.push_back(std::move(added.token_ids));
  }
  plan_.clear();
  plan_entries_.clear();
  for (Entry* entry : running_) {
    if (entry->num_granted == 0) continue;
    const Request& request = entry->request;
    const auto num_drafts = static_cast<int32_t>(entry->drafts.size());
    const bool will_sample =
        samples(request.kind) && entry->num_granted == entry->num_new_tokens() + num_drafts;
    const bool whole = !entry->known_to_executor;
    if (whole) {
      plan_.new_requests.push_back({.id = request.id,
                                    .token_ids = copy_of_tokens(request),
                                    .num_prompt_tokens = request.num_prompt_tokens,
                                    .params = request.params,
                                    .kind = request.kind,
                                    .adapter = request.adapter,
                                    .pooling = request.pooling,
                                    .media = request.media});
      entry->known_to_executor = true;
    }
    kv_.tables().append_updates(entry->sequence, static_cast<int32_t>(plan_.scheduled.size()),
                                whole, plan_.block_updates);
    plan_.scheduled.push_back({.id = request.id,
                               .num_computed_tokens = entry->next_position(),
                               .num_scheduled_tokens = entry->num_granted,
                               .num_drafts = num_drafts,
                               .first_draft = static_cast<int32_t>(plan_.draft_token_ids.size())});
    plan_.draft_token_ids.insert(plan_.draft_token_ids.end(), entry->drafts.begin(),
                                 entry->drafts.end());
    plan_.total_num_scheduled_tokens += entry->num_granted;
    entry->add_flight({.step_id = stats_.num_steps + 1,
                       .num_tokens = entry->num_granted,
                       .num_samples = will_sample ? 1 + num_drafts : 0});
    entry->num_granted = 0;
    plan_entries_.push_back(entry);
  }
  QUIRE_CHECK(budget_ >= 0 && num_running() <= config_.max_running() &&
                  plan_.total_num_scheduled_tokens + budget_ == config_.max_num_batched_tokens,
              "S-1: {} tokens for {} requests", plan_.total_num_scheduled_tokens, num_running());
  if (plan_.scheduled.empty()) {
    if (kv_.files() != nullptr && kv_.files()->wants_a_plan()) {
      plan_.step_id = ++stats_.num_steps;
      kv_.take_host_copies(plan_.step_id, plan_.host_copies);
    }
    return;
  }
  plan_.step_id = ++stats_.num_steps;
  if (config_.bounds_step_time()) note_step_time();
  stats_.num_scheduled_tokens += plan_.total_num_scheduled_tokens;
  plan_.dropped.swap(dropped_);
  media_.cache().take(plan_);
  kv_.take_host_copies(plan_.step_id, plan_.host_copies);
  plan_.block_copies.assign(kv_.tables().copies().begin(), kv_.tables().copies().end());
}

}  // namespace quire
