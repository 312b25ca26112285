// These classes count what one key may use within a minute and at the same time. They have no
// clock: the caller passes the time.
#pragma once

#include <cstdint>
#include <optional>

namespace quire::server {

struct KeyLimits {
  // Without a value there is no limit.
  std::optional<int64_t> requests_per_minute = {}, tokens_per_minute = {};
  std::optional<int64_t> max_concurrent = {};
};

enum class KeyLimit : uint8_t { kRequests, kTokens, kConcurrency };

// RateBucket holds the allowance of a minute and fills evenly. It computes exactly: one item is
// 60,000,000 units, and each microsecond adds as many units as there are items per minute.
class RateBucket {
 public:
  // The bucket is full at `now_us`. 1 <= per_minute <= 10^9.
  RateBucket(int64_t per_minute, int64_t now_us);
  void refill(int64_t now_us);
  bool has_one() const { return level_ >= kUnits; }
  // The level may go below zero, because usage is only known afterwards.
  void take(int64_t items);
  int64_t per_minute() const { return per_minute_; }
  int64_t remaining() const { return level_ > 0 ? level_ / kUnits : 0; }
  // The times from the last refill until there is one item, and until the bucket is full.
  int64_t us_to_one() const { return us_to(kUnits); }
  int64_t us_to_full() const { return us_to(capacity()); }
  // Sets another limit. What has been used stays used.
  void set_per_minute(int64_t per_minute);

 private:
  static constexpr int64_t kUnits = 60'000'000;
  int64_t capacity() const { return per_minute_ * kUnits; }
  int64_t us_to(int64_t level) const;

  int64_t per_minute_;
  int64_t level_;
  int64_t refilled_us_;
};

class KeyLimiter {
 public:
  KeyLimiter(const KeyLimits& limits, int64_t now_us) { set_limits(limits, now_us); }

  struct Refusal {
    KeyLimit limit;
    int64_t wait_us;  // until it may be allowed
  };
  // Counts one more running request, which leave() ends, and returns nullopt; or returns why it is
  // refused.
  std::optional<Refusal> enter(int64_t now_us);
  void leave() { --num_running_; }
  void charge_tokens(int64_t num_tokens, int64_t now_us);
  void set_limits(const KeyLimits& limits, int64_t now_us);

  // Returns null when there is no such limit. The bucket's level is that of the last call with a
  // time.
  const RateBucket* requests() const { return requests_ ? &*requests_ : nullptr; }
  const RateBucket* tokens() const { return tokens_ ? &*tokens_ : nullptr; }
  int64_t num_running() const { return num_running_; }

 private:
  std::optional<RateBucket> requests_, tokens_;
  std::optional<int64_t> max_concurrent_;
  int64_t num_running_ = 0;
};

}  // namespace quire::server
