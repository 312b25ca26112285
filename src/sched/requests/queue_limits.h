// QueueLimits decides how many requests and tokens may wait (law L3), and after how long a refused
// client may try again. One thread may use it.
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

  // Returns kResourceExhausted if this many more would exceed a limit.
  Status check_room(int32_t num_requests, int64_t num_tokens) const;
  void enter(int64_t num_tokens);
  void leave(int64_t num_tokens);

  // Records that a step that took busy_us computed num_tokens prompt tokens. 0 tokens: busy_us is
  // the time of any number of steps of decodes alone.
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
  int64_t decoding_us_ = 0;  // time of steps without prompt tokens since the last step with some
};

}  // namespace quire
