// A Workload is a list of requests with their lengths, contents and times, all known before the
// run.
//
// Times that depend on the run are data too: a later turn of a session is sent when the turn before
// it has ended (`previous`), and a closed loop sends the next request when one has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/media.h"

namespace quire::sim {

// A prompt consists, from left to right, of
//
//   | prefix_tokens of stream `prefix` | hash blocks | the rest: stream `content`, by position |
//
// The output continues the stream `content`, so that a later turn with the same content repeats it.
// Hash blocks are for traces that give the identity of every block of a prompt. They start at
// position 0 and exclude a prefix.
struct SimRequest {
  // After the start of the run, or after the end of `previous` if that is set.
  int64_t arrival_ns = 0;
  // In a closed loop: how late the client sends the first request of a session.
  int64_t delay_ns = 0;
  int32_t input_tokens = 0;
  int32_t output_tokens = 0;
  uint64_t content = 0;
  uint64_t prefix = 0;
  int32_t prefix_tokens = 0;
  int32_t num_hash_blocks = 0;
  int64_t first_hash_block = 0;  // index in Workload::hash_blocks
  int32_t previous = -1;         // index of the turn before; -1 for the first
  int32_t session = -1;          // -1 if it belongs to none
  int32_t priority = 0;
  int32_t adapter = 0;       // from 1; 0 means the model alone
  int32_t num_pictures = 0;  // their tokens, counted in input_tokens, follow the prefix
  friend bool operator==(const SimRequest&, const SimRequest&) = default;
};

struct ClosedLoop {
  int32_t concurrency = 1;
  int64_t think_ns = 0;  // between an answer and the client's next request
};

// Nothing may be sent later than this, which is about thirty years.
inline constexpr int64_t kMaxTimeNs = int64_t{1} << 60;

struct Workload {
  std::string name;
  // Requests without `previous` are ordered by arrival; each turn comes after the one before it.
  std::vector<SimRequest> requests;
  std::vector<uint64_t> hash_blocks;  // stream of each block of hash_block_tokens tokens
  int32_t hash_block_tokens = 0;
  // All pictures have the same size. Each consists of so many encoded items, with these numbers of
  // embeddings.
  std::vector<int32_t> picture_items;
  std::optional<ClosedLoop> closed_loop;  // if set, arrival_ns is not used

  // Returns whether no arrival depends on an answer.
  bool open_loop() const;
  // Writes the prompt of `request`.
  void fill_prompt(const SimRequest& request, std::vector<TokenId>& out) const;
  int32_t picture_tokens() const;  // of one picture
  // Returns where the pictures of `request` are in its prompt. Requests share pictures only if they
  // have the same content.
  std::vector<MediaSpan> pictures_of(const SimRequest& request) const;
  // Checks the order, that lengths are at least 1, and references; run() relies on them. The error
  // names the request.
  Status validate() const;
};

// Sorts by arrival (stable) and renumbers `previous`. Each turn stays behind the one before it.
void sort_by_arrival(Workload& workload);

// Scales all times so that arrivals are `factor` times as fast; factor > 0.
void scale_rate(Workload& workload, double factor);

}  // namespace quire::sim
