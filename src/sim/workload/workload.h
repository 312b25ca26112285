// A workload is requests with their lengths, contents and times as data, all known before the run.
//
// What depends on how the run goes is data too: a later turn of a session is sent when the turn
// before it has ended (`previous`), and a closed loop sends the next request when one has ended.
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

// A prompt is, left to right:
//
//   | prefix_tokens of stream `prefix` | hash blocks | the rest: stream `content`, by position |
//
// Its output goes on in `content`, so a later turn with the same content repeats it. Hash blocks
// (traces that name the identity of every block of the prompt) start at position 0 and exclude a
// prefix.
struct SimRequest {
  int64_t arrival_ns = 0;  // after the start; after the end of `previous` when that is set
  int64_t delay_ns = 0;    // in a closed loop: how late the client sends what begins a session
  int32_t input_tokens = 0;
  int32_t output_tokens = 0;
  uint64_t content = 0;
  uint64_t prefix = 0;
  int32_t prefix_tokens = 0;
  int32_t num_hash_blocks = 0;
  int64_t first_hash_block = 0;  // into Workload::hash_blocks
  int32_t previous = -1;         // index of the turn before; -1: the first
  int32_t session = -1;          // -1: none
  int32_t priority = 0;
  int32_t adapter = 0;       // from 1; 0: the model alone
  int32_t num_pictures = 0;  // whose tokens, among input_tokens, follow the prefix
  friend bool operator==(const SimRequest&, const SimRequest&) = default;
};

struct ClosedLoop {
  int32_t concurrency = 1;
  int64_t think_ns = 0;  // between an answer and the next request
};

// Nothing may be sent later than this, which is some thirty years.
inline constexpr int64_t kMaxTimeNs = int64_t{1} << 60;

struct Workload {
  std::string name;
  // Requests without `previous` are ordered by arrival; a turn comes after the one before it.
  std::vector<SimRequest> requests;
  std::vector<uint64_t> hash_blocks;  // stream of each block of hash_block_tokens tokens
  int32_t hash_block_tokens = 0;
  // All pictures are alike, and each has so many embeddings for each of its items that are encoded.
  std::vector<int32_t> picture_items;
  std::optional<ClosedLoop> closed_loop;  // then arrival_ns is not read

  // Returns whether no arrival depends on an answer.
  bool open_loop() const;
  // Writes the prompt of `request`.
  void fill_prompt(const SimRequest& request, std::vector<TokenId>& out) const;
  int32_t picture_tokens() const;  // of one
  // Where the pictures of `request` stand in its prompt. No two requests have a picture in common, but
  // for those of one content.
  std::vector<MediaSpan> pictures_of(const SimRequest& request) const;
  // Checks order, lengths >= 1 and references, which run() takes for granted. The error names the
  // request.
  Status validate() const;
};

// Sorts by arrival (stable) and renumbers `previous`. Later turns stay behind the earlier ones.
void sort_by_arrival(Workload& workload);

// Scales all times so that arrivals come `factor` times as fast; factor > 0.
void scale_rate(Workload& workload, double factor);

}  // namespace quire::sim
