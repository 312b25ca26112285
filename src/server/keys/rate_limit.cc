#include "server/keys/rate_limit.h"

#include <algorithm>

namespace quire::server {
namespace {

// It is not known when a running request will end.
constexpr int64_t kConcurrencyWaitUs = 1'000'000;
// Largest number of tokens that one call charges, so that sums stay far from overflow.
constexpr int64_t kMaxCharge = 1'000'000'000;

void set_bucket(std::optional<RateBucket>& bucket, std::optional<int64_t> per_minute,
                int64_t now_us) {
  if (!per_minute) {
    bucket.reset();
  } else if (!bucket) {
    bucket.emplace(*per_minute, now_us);
  } else {
    bucket->refill(now_us);
    bucket->set_per_minute(*per_minute);
  }
}

}  // namespace

RateBucket::RateBucket(int64_t per_minute, int64_t now_us)
    : per_minute_(per_minute), level_(capacity()), refilled_us_(now_us) {}

void RateBucket::refill(int64_t now_us) {
  const int64_t elapsed_us = std::max<int64_t>(now_us - refilled_us_, 0);
  level_ = elapsed_us >= us_to_full() ? capacity() : level_ + elapsed_us * per_minute_;
  refilled_us_ += elapsed_us;
}

void RateBucket::take(int64_t items) {
  // The debt is limited to a hundred minutes.
  level_ = std::max(level_ - std::min(items, kMaxCharge) * kUnits, -100 * capacity());
}

int64_t RateBucket::us_to(int64_t level) const {
  return level <= level_ ? 0 : (level - level_ + per_minute_ - 1) / per_minute_;
}

void RateBucket::set_per_minute(int64_t per_minute) {
  const int64_t used = capacity() - level_;
  per_minute_ = per_minute;
  level_ = std::max(capacity() - used, -100 * capacity());
}

std::optional<KeyLimiter::Refusal> KeyLimiter::enter(int64_t now_us) {
  if (requests_) requests_->refill(now_us);
  if (tokens_) tokens_->refill(now_us);
  if (requests_ && !requests_->has_one())
    return Refusal{KeyLimit::kRequests, requests_->us_to_one()};
  if (tokens_ && !tokens_->has_one()) return Refusal{KeyLimit::kTokens, tokens_->us_to_one()};
  if (max_concurrent_ && num_running_ >= *max_concurrent_)
    return Refusal{KeyLimit::kConcurrency, kConcurrencyWaitUs};
  if (requests_) requests_->take(1);
  ++num_running_;
  return std::nullopt;
}

void KeyLimiter::charge_tokens(int64_t num_tokens, int64_t now_us) {
  if (!tokens_) return;
  tokens_->refill(now_us);
  tokens_->take(num_tokens);
}

void KeyLimiter::set_limits(const KeyLimits& limits, int64_t now_us) {
  set_bucket(requests_, limits.requests_per_minute, now_us);
  set_bucket(tokens_, limits.tokens_per_minute, now_us);
  max_concurrent_ = limits.max_concurrent;
}

}  // namespace quire::server
