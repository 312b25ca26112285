#include "sched/requests/queue_limits.h"

#include <algorithm>
#include <cmath>

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

void QueueLimits::on_prefill(int64_t num_tokens, int64_t busy_us) {
  const auto us = static_cast<double>(std::max<int64_t>(busy_us, 1));
  const double keep = std::exp(-us / kWindowUs);
  recent_tokens_ = recent_tokens_ * keep + static_cast<double>(num_tokens);
  recent_us_ = recent_us_ * keep + us;
}

double QueueLimits::prefill_tokens_per_s() const {
  return recent_us_ <= 0.0 ? 0.0 : recent_tokens_ / recent_us_ * 1e6;
}

int64_t QueueLimits::retry_after_s() const {
  const double rate = prefill_tokens_per_s();
  if (rate <= 0.0) return 1;
  const double seconds = std::ceil(static_cast<double>(num_tokens_) / rate);
  return static_cast<int64_t>(std::clamp(seconds, 1.0, kMaxRetryAfterS));
}

}  // namespace quire
