// How linked ranks come to share memory: one rank creates it and offers it to others, and each of
// these answers whether it can use it. A rank on another machine, in another container or of
// another user cannot.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "comm/rank_links.h"
#include "comm/shared_memory.h"

namespace quire {

enum class RankTransport : uint8_t {
  kFastest,  // shared memory between ranks that can share some, else TCP
  kTcp,
};

// Ranks [begin, end).
struct RankRange {
  int begin = 0;
  int end = 0;
};

// Offers the memory to all of `others`, and returns those that use it. An offer whose `process` is
// 0 is one that nobody can take. kUnavailable: a rank is lost.
Result<std::vector<int>> offer_memory(RankLinks& links, const RankRange& others,
                                      const SharedMemoryOffer& offer);
// Receives the offer of rank `from` and calls `use` with the memory, if it can be opened and has
// `num_bytes`. Returns whether `use` returned true. kUnavailable: the rank is lost.
Result<bool> answer_offer(RankLinks& links, int from, int64_t num_bytes,
                          const std::function<bool(SharedMemory memory)>& use);

// Sends yes or no to another rank, in a frame of a kind that both expect. kUnavailable: the other
// rank is lost.
Status send_answer(RankLinks& links, int other, uint32_t kind, bool is_yes);
Result<bool> receive_answer(RankLinks& links, int other, uint32_t kind);

}  // namespace quire
