#include "sched/requests/queue_limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire {
namespace {
constexpr double kWindowUs = 10e6;
constexpr double kMaxRetryAfterS = 600.0;
}  // namespace

// A queue that could not hold one longest prompt would refuse it forever.
QueueLimits::QueueLimits(const SchedulerConfig& config)
    : max_reqs_(config.max_num_queued_reqs),
      max_tokens_(std::max<int64_t>(config.max_num_queued_tokens, config.max_model_len)) {}

Status QueueLimits::check_room(int32_t num_requests, int64_t num_tokens) const {
  if (int64_t{num_reqs_} + num_requests > max_reqs_) {
    return resource_exhausted(
        "the queue is full: {} requests wait, at most {} may; try again in {} s", num_reqs_,
        max_reqs_, retry_after_s());
  }
  if (num_tokens_ + num_tokens > max_tokens_) {
    return resource_exhausted(
        "the queue is full: {} prompt tokens wait, {} more would exceed {}; try again in {} s",
        num_tokens_, num_tokens, max_tokens_, retry_after_s());
  }
  return {};
}

void QueueLimits::enter(int64_t num_tokens) {
  ++num_reqs_;
  num_tokens_ += num_tokens;
}

void QueueLimits::leave(int64_t num_tokens) {
  --num_reqs_;
  num_tokens_ -= num_tokens;
  QUIRE_CHECK(num_reqs_ >= 0 && num_tokens_ >= 0, "S-9: {} requests, {} tokens queued", num_reqs_,
              num_tokens_);
}

QueueLimits::Recent QueueLimits::Recent::after(double num_tokens, int64_t busy_us) const {
  if (busy_us <= 0) return *this;
  const double windows = static_cast<double>(busy_us) / kWindowUs;
  const double gone = -std::expm1(-windows);
  return {.tokens = tokens * (1 - gone) + num_tokens * gone / windows,
          .us = us * (1 - gone) + kWindowUs * gone};
}

void QueueLimits::on_prefill(int64_t num_tokens, int64_t busy_us) {
  busy_us = std::max<int64_t>(busy_us, 1);
  if (num_tokens == 0) {
    decode_us_ += busy_us;
    return;
  }
  const Recent before = recent_.after(0, std::exchange(decode_us_, 0));
  recent_ = before.after(static_cast<double>(num_tokens), busy_us);
}

double QueueLimits::prefill_tokens_per_s() const {
  const Recent now = recent_.after(0, decode_us_);
  return now.us <= 0.0 ? 0.0 : now.tokens / now.us * 1e6;
}

int64_t QueueLimits::retry_after_s() const {
  const double rate = prefill_tokens_per_s();
  if (rate <= 0.0) return 1;
  const double seconds = std::ceil(static_cast<double>(num_tokens_) / rate);
  return static_cast<int64_t>(std::clamp(seconds, 1.0, kMaxRetryAfterS));
}

}  // namespace quire
