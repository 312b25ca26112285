// A SharedWord is a number in memory that threads or processes share: one of them raises it, and others
// wait until it has come as far as they want. It wraps around.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace quire {

// It has a cache line of its own. Zeros are a word that nobody has raised. Any thread may use it.
class alignas(64) SharedWord {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  bool has_come(uint32_t wanted) const { return is_at_least(value(), wanted); }
  // Wakes those who sleep, who then read all that was written before.
  void raise(uint32_t value);
  // Wakes those who sleep, so that they ask whether they go on.
  void wake();

  // Looks `num_spins` times, and returns whether it has come.
  bool spin(uint32_t wanted, int num_spins) const;
  // Sleeps until it has come or `goes_on`, which is asked every 20 ms, is false. Returns whether it has
  // come.
  bool sleep(uint32_t wanted, const std::function<bool()>& goes_on);

 private:
  static bool is_at_least(uint32_t value, uint32_t wanted) {
    return static_cast<int32_t>(value - wanted) >= 0;
  }

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> num_sleepers_{0};
};

}  // namespace quire
