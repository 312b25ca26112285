// A SharedWord is a number in memory that threads or processes share: one of them raises it, and
// others wait until it has reached a value. It wraps around.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace quire {

// Takes a cache line of its own. All zeros is a valid word that has not been raised. Any thread may
// use it.
class alignas(64) SharedWord {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  bool has_come(uint32_t wanted) const { return is_at_least(value(), wanted); }
  // Sets the value and wakes sleeping threads. A thread that sees it also sees all writes before
  // it.
  void raise(uint32_t value);
  // Wakes sleeping threads, so that they call `goes_on` again.
  void wake();

  // Checks `num_spins` times, and returns whether the word has reached `wanted`.
  bool spin(uint32_t wanted, int num_spins) const;
  // Sleeps until the word has reached `wanted` or `goes_on`, which is called every 20 ms, returns
  // false. Returns whether the word has reached `wanted`.
  bool sleep(uint32_t wanted, const std::function<bool()>& goes_on);

 private:
  static bool is_at_least(uint32_t value, uint32_t wanted) {
    return static_cast<int32_t>(value - wanted) >= 0;
  }

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> num_sleepers_{0};
};

}  // namespace quire
