#include "sched/grants/admission.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace quire {
namespace {

// The most queued requests that one step looks at for one whose adapter must wait.
constexpr int32_t kMostWithoutAdapter = 1024;
// Requests that did not fit are tried again in one step of this many, all of them in the same step.
constexpr uint64_t kStepsBetweenTries = 16;

}  // namespace

void Admission::admit() {
  if (state_.roster.waiting.empty() || !budget_.has_room()) return;
  const bool is_static = state_.config.batching == BatchingMode::kStaticBatches;
  if (is_static) {
    if (state_.roster.running().empty()) batch_forming_ = true;
    if (!batch_forming_) return;
  }
  budget_.promises.begin_admission();
  adapter_head_ = find_adapter_head();
  if (state_.config.batching == BatchingMode::kContinuous) admit_short();
  if (preemptions_.pause_admission()) return;
  admit_common();
  if (is_static) batch_forming_ = budget_.num_tokens == 0;
}

// Short requests have places of their own. They are admitted even while admission pauses: the most
// that they will hold is small, and is set aside for them when they are admitted.
void Admission::admit_short() {
  Roster& roster = state_.roster;
  while (roster.num_short_running() < state_.config.num_express_seqs() && budget_.has_room()) {
    const auto it = roster.waiting.first_short();
    if (it == roster.waiting.end() || !budget_.time.has_time_for(*it->entry)) return;
    if (waits_for_adapter(*it->entry)) return;
    if (try_admit(*it->entry) != Outcome::kAdmitted) return;
    note_overtaken(*it->entry);
    roster.waiting.erase(it);
  }
}

void Admission::admit_common() {
  WaitingQueue& waiting = state_.roster.waiting;
  Head head;
  int32_t num_without_adapter = 0;
  auto it = waiting.begin();
  while (it != waiting.end() && budget_.has_room() && has_common_places(1)) {
    Entry& entry = *it->entry;
    if (!budget_.time.has_time_for(entry)) break;
    if (waits_for_adapter(entry)) {
      if (++num_without_adapter == kMostWithoutAdapter) break;
      ++it;
      continue;
    }
    if (head.entry != nullptr && ++head.num_tried_past > state_.config.max_skip_ahead) break;
    const Outcome outcome = try_unless_hopeless(entry, head);
    if (outcome == Outcome::kNoBudget) break;
    it = outcome == Outcome::kAdmitted ? waiting.erase(it) : std::next(it);
    if (order_is_strict(entry, outcome, head)) break;
  }
}

Admission::Outcome Admission::try_unless_hopeless(Entry& entry, Head& head) {
  const BlockCounts available = state_.kv.stores().num_free() - budget_.promises.all;
  if (!has_common_places(entry.num_places()) || not_worth_a_try(entry, available))
    return Outcome::kNoBlocks;
  // A request that passes the head must not evict the cached blocks that the head is going to hit.
  if (head.entry != nullptr && !head.keeps_prefix && head.entry->has_sequence) {
    head.prefix =
        state_.kv.hold(head.entry->sequence, head.entry->request.token_ids, find_hit(*head.entry));
    head.keeps_prefix = true;
  }
  const Outcome outcome = try_admit(entry);
  if (outcome == Outcome::kNoBlocks) {
    entry.refused_available_blocks = available;
    entry.refused_step = state_.stats.num_steps;
  }
  return outcome;
}

// Records the outcome of an attempt to admit an entry. Returns true if no other request may pass
// the head.
bool Admission::order_is_strict(Entry& entry, Outcome outcome, Head& head) {
  const int32_t max_overtakes = state_.config.max_overtakes;
  if (outcome == Outcome::kAdmitted) {
    note_overtaken(entry);
    if (head.entry == nullptr) return false;
    ++state_.stats.num_skip_aheads;
    return ++head.entry->num_overtaken >= max_overtakes;
  }
  if (outcome == Outcome::kNotReady || head.entry != nullptr) return false;
  head.entry = &entry;
  ++state_.stats.num_head_waits;
  return entry.num_overtaken >= max_overtakes;  // from here on blocks are kept for the head
}

// Whether this many places are free that are not kept for short requests.
bool Admission::has_common_places(int32_t num_places) const {
  const int32_t num_express =
      std::min(state_.roster.num_short_running(), state_.config.num_express_seqs());
  return state_.roster.num_running() - num_express + num_places <= state_.config.max_num_seqs;
}

// Whether an entry that did not fit need not be tried yet. It is tried again when there is more
// room, and from time to time, because its prefix may have been cached meanwhile.
bool Admission::not_worth_a_try(const Entry& entry, const BlockCounts& available) const {
  return !state_.roster.running().empty() && available.fits_in(entry.refused_available_blocks) &&
         state_.stats.num_steps / kStepsBetweenTries == entry.refused_step / kStepsBetweenTries;
}

int32_t Admission::num_idle_rounds() const {
  constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
  const Roster& roster = state_.roster;
  const SchedulerConfig& config = state_.config;
  if (roster.waiting.empty()) return kAny;
  if (config.batching == BatchingMode::kStaticBatches) return batch_forming_ ? 0 : kAny;
  if (roster.num_running() >= config.max_running()) return kAny;
  // Short requests have places of their own, and the other three may make room within a round.
  if (config.num_express_seqs() > 0 || config.max_loras > 0 || config.bounds_step_time() ||
      state_.kv.tables().sizing().blocks_leave()) {
    return 0;
  }
  const BlockCounts promised = budget_.promises.sum(/*hard_only=*/true);
  if (preemptions_.pauses_admission(promised)) return kAny;
  const BlockCounts available = state_.kv.stores().num_free() - promised;
  const Entry& head = *roster.waiting.begin()->entry;
  int32_t num_seen = head.num_overtaken >= config.max_overtakes ? 1 : config.max_skip_ahead + 1;
  for (const WaitingQueue::Item& item : roster.waiting) {
    if (num_seen-- == 0) break;
    const Entry& entry = *item.entry;
    if (has_common_places(entry.num_places()) && !not_worth_a_try(entry, available)) return 0;
  }
  return static_cast<int32_t>(kStepsBetweenTries - state_.stats.num_steps % kStepsBetweenTries);
}

// --- Adapters ---

// Returns the first request of the queue that must wait until another adapter is no longer running.
Entry* Admission::find_adapter_head() const {
  const AdapterUses& adapters = state_.roster.adapters;
  const int32_t max_loras = state_.config.max_loras;
  if (max_loras == 0 || adapters.num_running() < max_loras) return nullptr;
  int32_t num_seen = 0;
  for (const WaitingQueue::Item& item : state_.roster.waiting) {
    if (!adapters.has_room(item.entry->request.adapter.get())) return item.entry;
    if (++num_seen == kMostWithoutAdapter) break;
  }
  return nullptr;
}

// Once the first request that waits for room for its adapter has been overtaken too often by
// requests with adapters, all of these wait behind it.
bool Admission::waits_for_adapter(const Entry& entry) const {
  const Adapter* adapter = entry.request.adapter.get();
  if (adapter == nullptr) return false;
  const bool is_overdue =
      adapter_head_ != nullptr && adapter_head_->num_overtaken >= state_.config.max_overtakes;
  return is_overdue || !state_.roster.adapters.has_room(adapter);
}

void Admission::note_overtaken(const Entry& admitted) {
  if (adapter_head_ != nullptr && admitted.request.adapter != nullptr)
    ++adapter_head_->num_overtaken;
}

// --- One request ---

Admission::Outcome Admission::try_admit(Entry& entry) {
  const bool is_chunked = state_.config.enable_chunked_prefill;
  const Request& request = entry.request;
  state_.roster.open_sequence(entry);
  if (promote_prefix(entry)) return Outcome::kNotReady;
  PrefixHit hit = find_hit(entry);
  while (true) {
    const int32_t num_left =
        budget_.rules.clip_to_fork(entry, hit.num_tokens, entry.num_allowed_tokens(hit.num_tokens));
    if (entry.held && (num_left == 0 || !is_chunked)) return Outcome::kNotReady;
    const int32_t timely = budget_.time.clip(
        entry, hit.num_tokens, budget_.rules.clip_tokens(num_left, budget_.num_tokens));
    if (!is_chunked && timely < num_left) return Outcome::kNoBudget;
    MediaGate::begin(request, hit.num_tokens, entry.media);
    const int32_t n =
        state_.roster.media.clip(request, hit.num_tokens, timely, budget_.num_tokens, entry.media);
    const bool has_media = n > 0 && (is_chunked || n == num_left);
    if (has_media && allocate(entry, hit, n)) {
      start(entry, hit, n);
      return Outcome::kAdmitted;
    }
    state_.roster.media.drop(request, false, entry.media);
    if (!has_media) return Outcome::kNotReady;
    // Copying a partial block takes a block while the hit still holds its source.
    if (!hit.partial_block) return Outcome::kNoBlocks;
    hit = state_.kv.lookup_whole_blocks(entry.sequence, request.token_ids);
  }
}

bool Admission::allocate(Entry& entry, const PrefixHit& hit, int32_t num_tokens) {
  const Request& request = entry.request;
  const BlockPromises& promises = budget_.promises;
  const int32_t num_full = entry.hard                       ? entry.max_kv_tokens
                           : state_.config.reserve_full_isl ? request.num_tokens()
                                                            : 0;
  return state_.kv.tables().allocate(entry.sequence,
                                     {.tokens = request.token_ids,
                                      .hit = hit,
                                      .num_new_tokens = num_tokens,
                                      .num_full_tokens = num_full,
                                      .num_reserved_blocks = promises.all + promises.watermark() +
                                                             promises.owed_to_other_beams(entry)});
}

// Brings the part of the prompt that is in host memory back first, if the request then surely fits.
// Returns true if more of the prompt is being loaded from files.
bool Admission::promote_prefix(const Entry& entry) {
  KvManager& kv = state_.kv;
  const Request& request = entry.request;
  if (!kv.stores().has_host_tier() || !request.reads_prefix_cache()) return false;
  const BlockCounts room =
      kv.stores().num_free() - budget_.promises.all - budget_.promises.watermark();
  const int32_t longest = entry.hard ? entry.max_kv_tokens : request.num_tokens();
  if (!kv.tables().sizing().blocks_for(longest).fits_in(room)) return false;
  kv.promote(entry.sequence, request.token_ids);
  return request.media.empty() && kv.load_from_files(entry.sequence, request.token_ids);
}

PrefixHit Admission::find_hit(Entry& entry) {
  KvManager& kv = state_.kv;
  const Request& request = entry.request;
  if (!request.reads_prefix_cache()) return {};
  if (request.fork_of && request.num_output_tokens() == 0) {
    const Entry* leader = state_.roster.find(*request.fork_of);
    const bool is_there = leader != nullptr && leader->has_sequence &&
                          !(state_.stops_for_forks && leader->in_flight());
    if (is_there) {
      const PrefixHit hit = kv.tables().fork_hit(leader->sequence, request.num_prompt_tokens - 1);
      if (hit.num_tokens > 0) return hit;
    }
  }
  return kv.lookup(entry.sequence, request.token_ids);
}

void Admission::start(Entry& entry, const PrefixHit& hit, int32_t num_tokens) {
  Request& request = entry.request;
  QUIRE_CHECK(hit.num_tokens < request.num_tokens(), "S-4: request {} hits all of its {} tokens",
              request.id.value, request.num_tokens());
  request.num_computed_tokens = hit.num_tokens;
  if (!entry.ever_admitted) {
    request.num_cached_tokens = hit.num_tokens;
    if (hit.from_fork) {
      ++state_.stats.num_forks;
    } else if (request.reads_prefix_cache()) {
      state_.stats.prefix_queries += request.num_tokens();
      state_.stats.prefix_hits += hit.num_tokens;
    }
  }
  // Reserves room for all tokens that may come, so that no step of the request allocates.
  request.token_ids.reserve(static_cast<size_t>(
      std::min<int64_t>(int64_t{request.num_prompt_tokens} + request.params->max_tokens,
                        state_.config.max_model_len)));
  state_.roster.start(entry);
  budget_.promises.all += budget_.promises.owed(entry);
  budget_.grant(entry, num_tokens);
  if (entry.is_beam()) beams_.start_others(entry);
}

}  // namespace quire
