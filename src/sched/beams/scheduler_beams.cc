// Scheduler: beams of one search. They are requests of their own, so that a step runs them like any
// other; what is theirs alone is that they share one fate, and that a beam may go on with the text
// of another.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler_impl.h"

namespace quire {

// --- Coming and going ---

// All beams of a search must have room at once: two searches that each wait for blocks of the other
// would wait forever.
Status Scheduler::Impl::check_beam(const Request& request) const {
  if (kv_.options().reservation != KvReservation::kPaged)
    return invalid_argument("beam search: expected a paged KV cache");
  if (request.params->max_tokens < 1)
    return invalid_argument("beam search: expected max_tokens >= 1");
  if (!request.fork_of) return {};
  const Entry* leader = find(*request.fork_of);
  if (leader == nullptr || leader->beam_leader != leader || leader->ever_admitted ||
      leader->state != EntryState::kWaiting) {
    return invalid_argument("request {}: expected {} to be a beam search that has not begun",
                            request.id.value, request.fork_of->value);
  }
  const int32_t width = leader->num_places() + 1;
  if (width > config_.max_num_seqs) {
    return too_large(
        "a beam search runs all of its beams at once: expected at most {} "
        "(--max-num-seqs)",
        config_.max_num_seqs);
  }
  const int32_t longest = max_kv_tokens(request);
  const auto num_prompt = static_cast<int32_t>(request.token_ids.size());
  const BlockCounts needed =
      kv_.tables().blocks_for(longest) + blocks_for_beam(longest, num_prompt) * int64_t{width - 1};
  const BlockCounts usable = kv_.num_usable_blocks();
  if (needed.fits_in(usable)) return {};
  return too_large(
      "{} beams of up to {} tokens take {} KV blocks: the cache has {}; ask for fewer beams or a "
      "smaller max_tokens",
      width, longest, needed.total(), usable.total());
}

void Scheduler::Impl::join_beams(Entry& entry) {
  if (!entry.request.fork_of) {
    entry.beam_leader = &entry;
    entry.beams = {&entry};
    waiting_.insert(entry);
    return;
  }
  Entry& leader = *by_id_.at(*entry.request.fork_of);
  entry.beam_leader = &leader;
  entry.is_spare_beam = true;
  entry.state = EntryState::kForkWaiting;
  ++num_fork_waiting_;
  leader.beams.push_back(&entry);
}

void Scheduler::Impl::retire_beams(Entry& leader, RequestStatus status) {
  if (leader.state == EntryState::kFinished) return;
  if (leader.state == EntryState::kWaiting) waiting_.erase(leader);
  std::erase(moving_, &leader);
  for (Entry* beam : leader.beams) {
    if (beam->state == EntryState::kForkWaiting) --num_fork_waiting_;
    retire(*beam, status);
  }
}

// The leader has been admitted: the others have their places from now on.
void Scheduler::Impl::admit_beams(Entry& leader) {
  for (Entry* beam : leader.beams) {
    if (beam == &leader) continue;
    if (!beam->has_sequence) {
      beam->sequence = kv_.open(beam->request.id, beam->request.cache_keys);
      beam->has_sequence = true;
    }
    leave_queue_accounting(*beam);
    beam->request.token_ids.reserve(leader.request.token_ids.capacity());
    beam->request.status = RequestStatus::kRunning;
    beam->state = EntryState::kRunning;
    --num_fork_waiting_;
    adapters_.add_running(beam->request.adapter.get(), 1);
    adapters_.add_waiting(beam->request.adapter.get(), -1);
    if (beam->hard) ++num_hard_running_;
    running_.push_back(beam);
    owed_ += owed_to_beam(*beam);
  }
}

void Scheduler::Impl::preempt_beams(Entry& leader) {
  for (Entry* beam : leader.beams) {
    stop_running(*beam);
    if (beam == &leader) continue;
    beam->state = EntryState::kForkWaiting;
    ++num_fork_waiting_;
  }
  waiting_.insert(leader);
}

bool Scheduler::Impl::has_place_for(const Entry& entry) const {
  const int32_t num_express = std::min(num_short_running_, config_.num_express_seqs());
  return num_running() - num_express + entry.num_places() <= config_.max_num_seqs;
}

// --- What is promised to beams ---

// Of a beam beside the first, which has the prompt too. Where no block leaves a sequence as it
// grows, all of them share the prompt's full blocks.
BlockCounts Scheduler::Impl::blocks_for_beam(int32_t num_tokens, int32_t num_prompt_tokens) const {
  const BlockCounts whole = kv_.tables().blocks_for(num_tokens);
  if (kv_.tables().blocks_leave() || kv_.spec().uses(KvPool::kState)) return whole;
  const int32_t num_shared = num_prompt_tokens / kv_.block_size() * kv_.block_size();
  return num_shared == 0 ? whole : whole - kv_.tables().blocks_for(num_shared);
}

BlockCounts Scheduler::Impl::owed_to_beam(const Entry& beam) const {
  const Request& request = beam.request;
  if (!beam.hard && !config_.reserve_full_isl) return {};
  const int32_t num_tokens = beam.hard ? beam.max_kv_tokens : request.num_tokens();
  if (beam.has_sequence && !kv_.tables().table(beam.sequence, 0).empty())
    return kv_.tables().blocks_missing(beam.sequence, num_tokens);
  if (&beam == beam.beam_leader) return kv_.tables().blocks_for(num_tokens);
  // What it begins with is a copy of the block that its parent's text ends in.
  if (beam.is_spare_beam && !beam.hard) return kv_.tables().a_block_each();
  return blocks_for_beam(num_tokens, request.num_prompt_tokens);
}

BlockCounts Scheduler::Impl::owed_to_other_beams(const Entry& leader) const {
  BlockCounts sum;
  for (const Entry* beam : leader.beams) {
    if (beam != &leader) sum += owed_to_beam(*beam);
  }
  return sum;
}

// --- The prompt ---

// Only the leader computes the prompt. After a preemption all have texts, and take the prompt's
// blocks once it has them again.
bool Scheduler::Impl::waits_for_prompt(const Entry& entry) const {
  if (entry.is_spare_beam) return true;
  const Request& leader = entry.beam_leader->request;
  return &leader != &entry.request && entry.next_position() == 0 &&
         leader.num_computed_tokens < leader.num_prompt_tokens;
}

void Scheduler::Impl::take_prompt(Entry& beam) {
  const Request& request = beam.request;
  if (&beam == beam.beam_leader || beam.next_position() > 0 ||
      !kv_.tables().table(beam.sequence, 0).empty()) {
    return;
  }
  PrefixHit hit = kv_.tables().fork_hit(beam.beam_leader->sequence, request.num_prompt_tokens);
  const PrefixHit cached = kv_.lookup(beam.sequence, request.token_ids);
  if (cached.num_tokens > hit.num_tokens) hit = cached;
  if (hit.num_tokens == 0) return;
  const BlockCounts own_promise = beam.hard ? owed_to_beam(beam) : BlockCounts{};
  const AllocateArgs args{
      .tokens = request.token_ids, .hit = hit, .num_reserved_blocks = hard_owed_ - own_promise};
  if (!kv_.tables().allocate(beam.sequence, args)) return;
  beam.request.num_computed_tokens = hit.num_tokens;
  if (beam.hard) hard_owed_ += owed_to_beam(beam) - own_promise;
}

// --- Moving ---

void Scheduler::Impl::note_moves(std::span<const BeamMove> moves) {
  if (moves.empty()) return;
  for (const BeamMove& move : moves) {
    const auto beam = by_id_.find(move.id);
    const auto parent = by_id_.find(move.parent);
    QUIRE_CHECK(beam != by_id_.end() && parent != by_id_.end() && beam->second->is_beam() &&
                    beam->second->beam_leader == parent->second->beam_leader,
                "requests {} and {} are no beams of one search", move.id.value, move.parent.value);
    beam->second->beam_parent = parent->second;
    beam->second->beam_token = move.token_id;
  }
  moving_.push_back(by_id_.at(moves.front().id)->beam_leader);
  stats_.num_generated_tokens += std::ssize(moves);
}

void Scheduler::Impl::move_beams() {
  for (Entry* leader : moving_) move_beams(*leader);
  moving_.clear();
  if (preempted_) compact_running();
}

// A beam that is given up gives its blocks back before others take copies of the blocks that their
// parents' texts end in: there are never more of these than of those, but for the first time.
void Scheduler::Impl::move_beams(Entry& leader) {
  bool has_room = true;
  for (Entry* beam : leader.beams) {
    if (beam->beam_parent == nullptr || beam->beam_parent == beam) continue;
    const Request& parent = beam->beam_parent->request;
    QUIRE_CHECK(beam->beam_parent->beam_parent == beam->beam_parent &&
                    parent.num_new_tokens() == 0 && !beam->beam_parent->in_flight(),
                "beam {} goes on as {}, which has {} tokens to compute", beam->request.id.value,
                parent.id.value, parent.num_new_tokens());
    // Another sequence, since its tokens are others from here on.
    kv_.close(beam->sequence);
    beam->sequence = kv_.open(beam->request.id, beam->request.cache_keys);
    beam->is_spare_beam = false;
    beam->request.token_ids = parent.token_ids;
    beam->request.num_computed_tokens = 0;
    beam->num_tokens_seen = beam->beam_parent->num_tokens_seen;
  }
  for (Entry* beam : leader.beams) {
    if (beam->beam_parent != nullptr && beam->beam_parent != beam) has_room &= fork_beam(*beam);
  }
  for (Entry* beam : leader.beams) {
    if (beam->beam_parent == nullptr) continue;
    beam->request.token_ids.push_back(beam->beam_token);
    beam->beam_parent = nullptr;
    // The executor learns the text by being told of a new request: it has sampled another token.
    if (beam->known_to_executor) dropped_.push_back(beam->request.id);
    beam->known_to_executor = false;
  }
  if (!has_room) preempt(leader);
}

bool Scheduler::Impl::fork_beam(Entry& beam) {
  const Entry& parent = *beam.beam_parent;
  const int32_t num_computed = parent.request.num_computed_tokens;
  const AllocateArgs args{.tokens = parent.request.token_ids,
                          .hit = kv_.tables().fork_hit(parent.sequence, num_computed)};
  if (args.hit.num_tokens == 0 || !kv_.tables().allocate(beam.sequence, args)) return false;
  beam.request.num_computed_tokens = num_computed;
  ++stats_.num_forks;
  return true;
}

}  // namespace quire
