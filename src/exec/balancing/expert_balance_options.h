// Options for placing the experts of a model on ranks by their load (EPLB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace quire {

struct ExpertBalanceOptions {
  bool is_enabled = false;
  // Tokens are counted in the last `window_size` steps of each interval.
  int64_t window_size = 1000;
  // Steps from one placement to the next one.
  int64_t step_interval = 3000;
  // Set by tests only. It is called on the first rank's thread of execute() when the experts of a
  // layer have moved.
  std::function<void(size_t layer)> on_change = {};
};

}  // namespace quire
