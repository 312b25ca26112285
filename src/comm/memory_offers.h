// Linked ranks come to share memory here: one of them makes it and offers it to others, each of which
// says whether it can use it. Those of another machine, container or user cannot.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "comm/rank_links.h"
#include "comm/shared_memory.h"

namespace quire {

enum class RankTransport : uint8_t {
  kFastest,  // shared memory where ranks can share some
  kTcp,
};

// Ranks [begin, end).
struct RankRange {
  int begin = 0;
  int end = 0;
};

// Offers the memory to all of `others`, and returns those that use it. An offer of no process is one
// that nobody can take. kUnavailable: a rank is lost.
Result<std::vector<int>> offer_memory(RankLinks& links, const RankRange& others,
                                      const SharedMemoryOffer& offer);
// Gives `use` what rank `from` offers, if it can be opened and has `num_bytes`. Returns whether `use`
// took it. kUnavailable: the rank is lost.
Result<bool> answer_offer(RankLinks& links, int from, int64_t num_bytes,
                          const std::function<bool(SharedMemory memory)>& use);

// One rank tells another yes or no in a frame of a kind that both expect. kUnavailable: the other rank
// is lost.
Status send_answer(RankLinks& links, int other, uint32_t kind, bool is_yes);
Result<bool> receive_answer(RankLinks& links, int other, uint32_t kind);

}  // namespace quire
