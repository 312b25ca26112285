// The scheduler's record of one request. Internal to sched/.
#pragma once

#include <cstdint>

#include "core/request.h"
#include "kv/kv_manager.h"

namespace quire {

enum class EntryState : uint8_t { kWaiting, kForkWaiting, kRunning, kFinished };

struct Entry {
  Request request;
  EntryState state = EntryState::kWaiting;

  // KV. A sequence is opened at the first attempt to admit and stays until the request has
  // finished.
  bool has_sequence = false;
  KvSequenceId sequence{-1};
  int32_t max_kv_tokens =
      0;  // positions it can ever hold: prompt and longest output but the last token
  bool hard =
      false;  // preempted often enough: holds a reservation for max_kv_tokens, never a victim

  // The step that is being planned, and the one that is being executed.
  int32_t num_granted = 0;
  bool in_flight = false;
  uint64_t in_flight_step = 0;
  int32_t num_in_flight = 0;

  bool known_to_executor = false;
  bool ever_admitted = false;
  int64_t num_queued_tokens = 0;  // counted against the queue limit until first admitted
  int32_t num_overtaken = 0;      // admissions that passed it while it was the head
  int32_t num_tokens_seen = 0;    // most tokens ever computed, to count recomputation

  // The last time it did not fit: not worth another look until more blocks are free or some steps
  // have passed.
  int64_t refused_available_blocks = -1;
  uint64_t refused_round = 0;

  // Order among equals and age: earlier arrival first, then smaller id.
  bool arrived_before(const Entry& other) const {
    if (request.arrival_us != other.request.arrival_us)
      return request.arrival_us < other.request.arrival_us;
    return request.id < other.request.id;
  }
};

}  // namespace quire
