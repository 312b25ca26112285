// The scheduler's record of one request. Internal to sched/.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/request.h"
#include "draft/draft_planner.h"
#include "kv/books/block_counts.h"
#include "kv/kv_manager.h"
#include "sched/flight.h"
#include "sched/media/media_gate.h"

namespace quire {

enum class EntryState : uint8_t { kWaiting, kForkWaiting, kRunning, kFinished };

// Less than any count of free blocks.
inline constexpr BlockCounts kNothingAvailable = BlockCounts::all(-1);

struct Entry {
  Request request;
  EntryState state = EntryState::kWaiting;

  // KV. The request's sequence is opened when it is first tried for admission, and stays open until
  // the request has finished.
  bool has_sequence = false;
  KvSequenceId sequence{-1};
  int32_t max_kv_tokens =
      0;  // the most positions it can hold: prompt and longest output, without the last token
  // The request has a reservation for max_kv_tokens and is never a victim, because it is short or
  // was preempted often enough.
  bool hard = false;
  bool is_short = false;  // may take an express place (SchedulerConfig::express_tokens)

  MediaProgress media;

  // Tokens granted in the step being planned; then the steps under way (flights), oldest first.
  int32_t num_granted = 0;
  std::vector<TokenId> drafts;  // the last tokens of num_granted, or of the only flight
  DraftClass draft_class;       // class of `drafts`
  DraftHistory draft_history;
  std::array<Flight, kMaxFlights> flights{};
  int32_t num_flights = 0;

  // For a beam: the first beam of its search, with which it is admitted and preempted.
  Entry* beam_leader = nullptr;
  std::vector<Entry*> beams;     // of a leader: all beams of the search, itself first
  bool is_spare_beam = false;    // the search has given it no text yet
  Entry* beam_parent = nullptr;  // the beam whose text it goes on with in the next step
  TokenId beam_token = 0;        // the token to append to that text

  bool held = false;  // Scheduler::hold(): no token is sampled for it
  bool known_to_executor = false;
  bool ever_admitted = false;
  int64_t num_queued_tokens = 0;  // counted against the queue limit until first admitted
  int32_t num_overtaken = 0;      // admissions that passed it while it was the head of the queue
  int32_t num_tokens_seen = 0;    // most tokens ever computed, to count recomputation

  // When the request last did not fit. It is not tried again until more blocks are free or some
  // steps have passed.
  BlockCounts refused_available_blocks = kNothingAvailable;
  uint64_t refused_step = 0;

  bool in_flight() const { return num_flights > 0; }
  int32_t num_tokens_in_flight() const {
    int32_t sum = 0;
    for (int32_t i = 0; i < num_flights; ++i) sum += flights[static_cast<size_t>(i)].num_tokens;
    return sum;
  }
  // Returns the most tokens that the steps under way sample. Without drafts the request will surely
  // get all of them; only their values are unknown.
  int32_t num_open_tokens() const {
    int32_t count = 0;
    for (int32_t i = 0; i < num_flights; ++i) count += flights[static_cast<size_t>(i)].num_samples;
    return count;
  }
  // Returns the first position that no step has been planned for, provided all drafts under way
  // come true.
  int32_t next_position() const { return request.num_computed_tokens + num_tokens_in_flight(); }
  int32_t num_tokens() const { return request.num_tokens() + num_open_tokens(); }
  int32_t num_new_tokens() const { return num_tokens() - next_position(); }
  // Returns how many of its tokens from `position` on the next step may compute.
  int32_t num_allowed_tokens(int32_t position) const { return num_tokens() - position - held; }

  void add_flight(const Flight& flight) { flights[static_cast<size_t>(num_flights++)] = flight; }
  void remove_oldest_flight() {
    flights[0] = flights[1];
    --num_flights;
  }

  // Returns whether the request has one token to compute and its prompt is behind it.
  bool decodes() const {
    return num_new_tokens() == 1 && next_position() >= request.num_prompt_tokens;
  }

  bool is_beam() const { return beam_leader != nullptr; }
  // For a beam: only the leader computes the prompt. After a preemption the other beams, which then
  // all have texts, wait until the leader has computed the prompt again, and take its blocks.
  bool waits_for_prompt() const {
    if (is_spare_beam) return true;
    const Request& leader = beam_leader->request;
    return &leader != &request && next_position() == 0 &&
           leader.num_computed_tokens < leader.num_prompt_tokens;
  }
  // Returns the places that the request needs, with the requests that are admitted together with
  // it.
  int32_t num_places() const { return beams.empty() ? 1 : static_cast<int32_t>(beams.size()); }

  // Breaks ties and compares ages: earlier arrival first, then smaller id.
  bool arrived_before(const Entry& other) const {
    if (request.arrival_us != other.request.arrival_us)
      return request.arrival_us < other.request.arrival_us;
    return request.id < other.request.id;
  }
};

}  // namespace quire
