// Time as a dependency: the engine reads a Clock, tests and the simulator turn one by hand.
#pragma once

#include <cstdint>

namespace quire {

class Clock {
 public:
  virtual ~Clock() = default;
  // Microseconds since an arbitrary start; never goes back. Any thread.
  virtual int64_t now_us() const = 0;
};

class SteadyClock final : public Clock {
 public:
  int64_t now_us() const override;
};

// Stands still until told otherwise. One thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_us = 0) : now_us_(start_us) {}
  int64_t now_us() const override { return now_us_; }
  void advance_us(int64_t delta_us) { now_us_ += delta_us; }

 private:
  int64_t now_us_;
};

}  // namespace quire
