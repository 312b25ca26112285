#include "base/clock.h"

#include <chrono>

namespace quire {

int64_t SteadyClock::now_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace quire
