// Time is a dependency: the engine reads a Clock, and tests and the simulator set one by hand.
#pragma once

#include <cstdint>

namespace quire {

class Clock {
 public:
  virtual ~Clock() = default;
  // Returns microseconds since an arbitrary start, and never goes back. Any thread may call it.
  virtual int64_t now_us() const = 0;
};

class SteadyClock final : public Clock {
 public:
  int64_t now_us() const override;
};

// A clock that stands still until it is set. Used by one thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_us = 0) : now_us_(start_us) {}
  int64_t now_us() const override { return now_us_; }
  void advance_us(int64_t delta_us) { now_us_ += delta_us; }

 private:
  int64_t now_us_;
};

}  // namespace quire
