// QueueLimits decides how much may wait (law L3), and how long a refused client should stay away.
// One thread may use it.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "sched/scheduler_config.h"

namespace quire {

class QueueLimits {
 public:
  explicit QueueLimits(const SchedulerConfig& config);

  int32_t num_queued_reqs() const { return num_reqs_; }
  int64_t num_queued_tokens() const { return num_tokens_; }
  int64_t max_queued_tokens() const { return max_tokens_; }

  // kResourceExhausted when so much more would pass a limit.
  Status check_room(int32_t num_requests, int64_t num_tokens) const;
  void enter(int64_t num_tokens);
  void leave(int64_t num_tokens);

  // So many prompt tokens were computed in a step that took busy_us; 0: in steps of decodes alone,
  // however many.
  void on_prefill(int64_t num_tokens, int64_t busy_us);
  double prefill_tokens_per_s() const;
  int64_t retry_after_s() const;

 private:
  const int32_t max_reqs_;
  const int64_t max_tokens_;
  int32_t num_reqs_ = 0;
  int64_t num_tokens_ = 0;
  // These sums fade over kWindowUs of busy time.
  struct Recent {
    double tokens = 0.0;
    double us = 0.0;
  };
  Recent faded() const;

  Recent recent_;
  int64_t decoding_us_ = 0;  // since then, in steps without prompt tokens
};

}  // namespace quire
