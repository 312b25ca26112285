// How experts that are spread over ranks are dealt out by load (EPLB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace quire {

struct ExpertBalanceOptions {
  bool is_enabled = false;
  // Tokens are counted in the last so many steps of an interval.
  int64_t window_size = 1000;
  // Steps from one placement to the next one.
  int64_t step_interval = 3000;
  // Tests set it. It is called on the first rank's thread of execute() when a layer's experts have
  // moved.
  std::function<void(size_t layer)> on_change = {};
};

}  // namespace quire
