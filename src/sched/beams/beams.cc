#include "sched/beams/beams.h"

#include <algorithm>

#include "base/check.h"

namespace quire {

// --- Coming and going ---

// All beams of a search must fit at once: two searches that each waited for blocks of the other
// would wait forever.
Status Beams::check(const Request& request) const {
  const KvManager& kv = state_.kv;
  if (kv.options().reservation != KvReservation::kPaged)
    return invalid_argument("beam search: expected a paged KV cache");
  if (request.params->max_tokens < 1)
    return invalid_argument("beam search: expected max_tokens >= 1");
  if (!request.fork_of) return {};
  const Entry* leader = state_.roster.find(*request.fork_of);
  if (leader == nullptr || leader->beam_leader != leader || leader->ever_admitted ||
      leader->state != EntryState::kWaiting) {
    return invalid_argument("request {}: expected {} to be a beam search that has not begun",
                            request.id.value, request.fork_of->value);
  }
  const int32_t width = leader->num_places() + 1;
  if (width > state_.config.max_num_seqs) {
    return too_large(
        "a beam search runs all of its beams at once: expected at most {} "
        "(--max-num-seqs)",
        state_.config.max_num_seqs);
  }
  const int32_t longest = max_kv_tokens(state_.config, request);
  const auto num_prompt = static_cast<int32_t>(request.token_ids.size());
  const BlockCounts needed =
      kv.tables().sizing().blocks_for(longest) +
      budget_.promises.blocks_for_beam(longest, num_prompt) * int64_t{width - 1};
  const BlockCounts usable = kv.stores().num_usable();
  if (needed.fits_in(usable)) return {};
  return too_large(
      "{} beams of up to {} tokens take {} KV blocks: the cache has {}; ask for fewer beams or a "
      "smaller max_tokens",
      width, longest, needed.total(), usable.total());
}

void Beams::join(Entry& entry) {
  if (!entry.request.fork_of) {
    entry.beam_leader = &entry;
    entry.beams = {&entry};
    state_.roster.waiting.insert(entry);
    return;
  }
  Entry& leader = *state_.roster.find(*entry.request.fork_of);
  entry.beam_leader = &leader;
  entry.is_spare_beam = true;
  state_.roster.forks.add(entry);
  leader.beams.push_back(&entry);
}

void Beams::retire(Entry& leader, RequestStatus status) {
  if (leader.state == EntryState::kFinished) return;
  Roster& roster = state_.roster;
  if (leader.state == EntryState::kWaiting) roster.waiting.erase(leader);
  std::erase(moving_, &leader);
  for (Entry* beam : leader.beams) {
    if (beam->state == EntryState::kForkWaiting) roster.forks.remove(*beam);
    roster.retire(*beam, status);
  }
}

void Beams::start_others(Entry& leader) {
  Roster& roster = state_.roster;
  for (Entry* beam : leader.beams) {
    if (beam == &leader) continue;
    roster.open_sequence(*beam);
    beam->request.token_ids.reserve(leader.request.token_ids.capacity());
    roster.forks.remove(*beam);
    roster.start(*beam);
    budget_.promises.all += budget_.promises.owed(*beam);
  }
}

// --- The prompt ---

void Beams::take_prompt(Entry& beam) {
  KvManager& kv = state_.kv;
  BlockPromises& promises = budget_.promises;
  const Request& request = beam.request;
  if (&beam == beam.beam_leader || beam.next_position() > 0 ||
      !kv.tables().table(beam.sequence, 0).empty()) {
    return;
  }
  PrefixHit hit = kv.tables().fork_hit(beam.beam_leader->sequence, request.num_prompt_tokens);
  const PrefixHit cached = kv.lookup(beam.sequence, request.token_ids);
  if (cached.num_tokens > hit.num_tokens) hit = cached;
  if (hit.num_tokens == 0) return;
  const BlockCounts own_promise = beam.hard ? promises.owed(beam) : BlockCounts{};
  const AllocateArgs args{
      .tokens = request.token_ids, .hit = hit, .num_reserved_blocks = promises.hard - own_promise};
  if (!kv.tables().allocate(beam.sequence, args)) return;
  beam.request.num_computed_tokens = hit.num_tokens;
  if (beam.hard) promises.hard += promises.owed(beam) - own_promise;
}

// --- Moves ---

void Beams::note_moves(std::span<const BeamMove> moves) {
  for (const BeamMove& move : moves) {
    Entry* beam = state_.roster.find(move.id);
    Entry* parent = state_.roster.find(move.parent);
    QUIRE_CHECK(beam != nullptr && parent != nullptr && beam->is_beam() &&
                    beam->beam_leader == parent->beam_leader,
                "requests {} and {} are no beams of one search", move.id.value, move.parent.value);
    beam->beam_parent = parent;
    beam->beam_token = move.token_id;
    if (std::find(moving_.begin(), moving_.end(), beam->beam_leader) == moving_.end())
      moving_.push_back(beam->beam_leader);
  }
  state_.stats.num_generated_tokens += std::ssize(moves);
}

void Beams::begin_step() {
  for (Entry* leader : moving_) move(*leader);
  moving_.clear();
  if (preemptions_.any()) state_.roster.compact_running();
}

// The beams that are given up free their blocks before other beams copy the partial blocks in which
// their parents' texts end. Except for the first time, no more blocks are needed than were freed.
void Beams::move(Entry& leader) {
  bool has_room = true;
  for (Entry* beam : leader.beams) {
    if (beam->beam_parent != nullptr && beam->beam_parent != beam) leave_text(*beam);
  }
  for (Entry* beam : leader.beams) {
    if (beam->beam_parent != nullptr && beam->beam_parent != beam) has_room &= fork(*beam);
  }
  for (Entry* beam : leader.beams) {
    if (beam->beam_parent == nullptr) continue;
    beam->request.token_ids.push_back(beam->beam_token);
    beam->beam_parent = nullptr;
    // The executor learns the beam's text as that of a new request, since it has sampled another
    // token.
    if (beam->known_to_executor) state_.roster.dropped.push_back(beam->request.id);
    beam->known_to_executor = false;
  }
  if (!has_room) preemptions_.preempt(leader);
}

// Makes the beam's tokens those of its parent. The beam has no blocks for them yet.
void Beams::leave_text(Entry& beam) {
  const Entry& parent = *beam.beam_parent;
  QUIRE_CHECK(
      parent.beam_parent == &parent && parent.request.num_new_tokens() == 0 && !parent.in_flight(),
      "beam {} goes on as {}, which has {} tokens to compute", beam.request.id.value,
      parent.request.id.value, parent.request.num_new_tokens());
  // The tokens differ from here on, so the beam needs a new sequence.
  state_.kv.close(beam.sequence);
  beam.has_sequence = false;
  state_.roster.open_sequence(beam);
  beam.is_spare_beam = false;
  beam.request.token_ids = parent.request.token_ids;
  beam.request.num_computed_tokens = 0;
  beam.num_tokens_seen = parent.num_tokens_seen;
}

bool Beams::fork(Entry& beam) {
  BlockTables& tables = state_.kv.tables();
  const Entry& parent = *beam.beam_parent;
  const int32_t num_computed = parent.request.num_computed_tokens;
  const AllocateArgs args{.tokens = parent.request.token_ids,
                          .hit = tables.fork_hit(parent.sequence, num_computed)};
  if (args.hit.num_tokens == 0 || !tables.allocate(beam.sequence, args)) return false;
  beam.request.num_computed_tokens = num_computed;
  ++state_.stats.num_forks;
  return true;
}

}  // namespace quire
