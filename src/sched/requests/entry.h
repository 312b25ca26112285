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

// Less than there ever is.
inline constexpr BlockCounts kNothingAvailable = BlockCounts::all(-1);

struct Entry {
  Request request;
  EntryState state = EntryState::kWaiting;

  // KV. A sequence is opened at the first attempt to admit and stays until the request has
  // finished.
  bool has_sequence = false;
  KvSequenceId sequence{-1};
  int32_t max_kv_tokens =
      0;  // positions it can ever hold: prompt and longest output but the last token
  // Holds a reservation for max_kv_tokens and is never a victim: it is short, or was preempted
  // often enough.
  bool hard = false;
  bool is_short = false;  // may take an express place (SchedulerConfig::express_tokens)

  MediaProgress media;

  // The step that is being planned, and those that are being executed, oldest first.
  int32_t num_granted = 0;
  std::vector<TokenId> drafts;  // the last of num_granted, or of the only flight
  DraftClass draft_class;       // of drafts
  DraftHistory draft_history;
  std::array<Flight, kMaxFlights> flights{};
  int32_t num_flights = 0;

  // Of a beam: the first of its search, which is admitted and preempted with all others.
  Entry* beam_leader = nullptr;
  std::vector<Entry*> beams;     // of a leader: all of the search, itself first
  bool is_spare_beam = false;    // no text goes on in it yet
  Entry* beam_parent = nullptr;  // whose text it goes on with in the next step
  TokenId beam_token = 0;        // behind that text

  bool held = false;  // Scheduler::hold(): nothing is sampled for it
  bool known_to_executor = false;
  bool ever_admitted = false;
  int64_t num_queued_tokens = 0;  // counted against the queue limit until first admitted
  int32_t num_overtaken = 0;      // admissions that passed it while it was the head
  int32_t num_tokens_seen = 0;    // most tokens ever computed, to count recomputation

  // The last time it did not fit: not worth another look until more blocks are free or some steps
  // have passed.
  BlockCounts refused_available_blocks = kNothingAvailable;
  uint64_t refused_step = 0;

  bool in_flight() const { return num_flights > 0; }
  int32_t num_tokens_in_flight() const {
    int32_t sum = 0;
    for (int32_t i = 0; i < num_flights; ++i) sum += flights[static_cast<size_t>(i)].num_tokens;
    return sum;
  }
  // Returns how many tokens the steps under way may have sampled. Without drafts it is sure that
  // the request has them, and their values are unknown.
  int32_t num_open_tokens() const {
    int32_t count = 0;
    for (int32_t i = 0; i < num_flights; ++i) count += flights[static_cast<size_t>(i)].num_samples;
    return count;
  }
  // Returns the first position that no step has been planned for, if all drafts under way come out.
  int32_t next_position() const { return request.num_computed_tokens + num_tokens_in_flight(); }
  int32_t num_tokens() const { return request.num_tokens() + num_open_tokens(); }
  int32_t num_new_tokens() const { return num_tokens() - next_position(); }
  // Returns how many of the tokens from `position` on the next step may compute.
  int32_t num_allowed_tokens(int32_t position) const { return num_tokens() - position - held; }

  void add_flight(const Flight& flight) { flights[static_cast<size_t>(num_flights++)] = flight; }
  void remove_oldest_flight() {
    flights[0] = flights[1];
    --num_flights;
  }

  // Returns whether its next token waits for the step that is being planned.
  bool decodes() const {
    return num_new_tokens() == 1 && next_position() >= request.num_prompt_tokens;
  }

  bool is_beam() const { return beam_leader != nullptr; }
  // Of a beam: only the leader computes the prompt. After a preemption all have texts, and take the
  // prompt's blocks once it has them again.
  bool waits_for_prompt() const {
    if (is_spare_beam) return true;
    const Request& leader = beam_leader->request;
    return &leader != &request && next_position() == 0 &&
           leader.num_computed_tokens < leader.num_prompt_tokens;
  }
  // Requests that are admitted with it.
  int32_t num_places() const { return beams.empty() ? 1 : static_cast<int32_t>(beams.size()); }

  // Order among equals and age: earlier arrival first, then smaller id.
  bool arrived_before(const Entry& other) const {
    if (request.arrival_us != other.request.arrival_us)
      return request.arrival_us < other.request.arrival_us;
    return request.id < other.request.id;
  }
};

}  // namespace quire
