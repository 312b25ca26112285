// A flight is a step of one request that has been planned and whose outcome has not come.
#pragma once

#include <cstdint>

namespace quire {

// So many steps of one request may be under way at once: one runs while the next is made ready.
inline constexpr int32_t kMaxFlights = 2;

struct Flight {
  uint64_t step_id = 0;
  int32_t num_tokens = 0;   // drafts included
  int32_t num_samples = 0;  // tokens that it brings at most: 0, or 1 and as many as drafts
};

}  // namespace quire
