// A flight is a step of one request that has been planned and whose outcome has not come.
#pragma once

#include <cstdint>

namespace quire {

// The most steps of one request that may be under way at once: one runs while the next is prepared.
inline constexpr int32_t kMaxFlights = 2;

struct Flight {
  uint64_t step_id = 0;
  int32_t num_tokens = 0;   // drafts included
  int32_t num_samples = 0;  // the most tokens that it samples: 0, or 1 plus the drafts
};

}  // namespace quire
