// StepRules: what a step may compute of a request, apart from the room that the step has. One
// thread may use it.
#pragma once

#include <algorithm>

#include "sched/requests/scheduler_state.h"

namespace quire {

class StepRules {
 public:
  explicit StepRules(const SchedulerState& state) : state_(state) {}

  bool may_compute(const Entry& entry) const {
    if (entry.num_allowed_tokens(entry.next_position()) <= 0) return false;
    if (entry.is_beam() && entry.waits_for_prompt()) return false;
    return !entry.in_flight() || may_overlap(entry);
  }
  // Returns how many of `num_tokens` from `position` on the leader of a fork group may compute.
  int32_t clip_to_fork(const Entry& entry, int32_t position, int32_t num_tokens) const {
    const int32_t stop = entry.request.num_prompt_tokens - 1;
    if (position >= stop || !stops_for_fork(entry, stop)) return num_tokens;
    return std::min(num_tokens, stop - position);
  }
  int32_t clip_tokens(int32_t num_tokens, int32_t budget) const {
    const SchedulerConfig& config = state_.config;
    const int32_t threshold = config.long_prefill_token_threshold;
    if (config.enable_chunked_prefill && threshold > 0)
      num_tokens = std::min(num_tokens, threshold);
    return std::min(num_tokens, budget);
  }

 private:
  // A state is lost when the next token is computed. So the leader of a fork group stops before the
  // last token of its prompt, and goes on in the step in which its forks copy the state.
  bool stops_for_fork(const Entry& entry, int32_t position) const {
    return state_.stops_for_forks && position == entry.request.num_prompt_tokens - 1 &&
           state_.roster.forks.contains(entry.request.id);
  }
  bool may_overlap(const Entry& entry) const;

  const SchedulerState& state_;
};

}  // namespace quire
