#include "sched/requests/queue_limits.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {
constexpr double kWindowUs = 10e6;
constexpr double kMaxRetryAfterS = 600.0;
}  // namespace

// A queue too small for one longest prompt would refuse that prompt forever.
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

// Time without prompt tokens is added up separately, so that many steps of decodes in one call give
// the same result as one call per step.
void QueueLimits::on_prefill(int64_t num_tokens, int64_t busy_us) {
  if (num_tokens == 0) {
    decoding_us_ += busy_us;
    return;
  }
  const auto us = static_cast<double>(std::max<int64_t>(busy_us, 1));
  const double keep = std::exp(-us / kWindowUs);
  const Recent before = faded();
  recent_ = {.tokens = before.tokens * keep + static_cast<double>(num_tokens),
             .us = before.us * keep + us};
  decoding_us_ = 0;
}

// Returns the sums as they are after the time without prompt tokens, which adds time and no tokens.
QueueLimits::Recent QueueLimits::faded() const {
  const double lost = -std::expm1(-static_cast<double>(decoding_us_) / kWindowUs);
  return {.tokens = recent_.tokens * (1.0 - lost),
          .us = recent_.us * (1.0 - lost) + kWindowUs * lost};
}

double QueueLimits::prefill_tokens_per_s() const {
  const Recent recent = faded();
  return recent.us <= 0.0 ? 0.0 : recent.tokens / recent.us * 1e6;
}

int64_t QueueLimits::retry_after_s() const {
  const double rate = prefill_tokens_per_s();
  if (rate <= 0.0) return 1;
  const double seconds = std::ceil(static_cast<double>(num_tokens_) / rate);
  return static_cast<int64_t>(std::clamp(seconds, 1.0, kMaxRetryAfterS));
}

}  // namespace quire
