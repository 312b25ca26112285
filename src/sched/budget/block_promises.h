// BlockPromises: the blocks that requests will still take and nobody else may be given. A running
// request with a hard reservation has been promised blocks for its longest output, any other one
// blocks for the rest of its known tokens (SchedulerConfig::reserve_full_isl). One thread may use
// it.
#pragma once

#include "sched/requests/scheduler_state.h"

namespace quire {

class BlockPromises {
 public:
  explicit BlockPromises(const SchedulerState& state) : state_(state) {}

  // Recomputes `hard`, at the beginning of a step.
  void begin_step() { hard = sum(/*hard_only=*/true); }
  // Recomputes `all`.
  void begin_admission() { all = sum(/*hard_only=*/false); }

  // Returns the blocks that a running request, or a beam that waits for its place, will still take.
  BlockCounts owed(const Entry& entry) const;
  BlockCounts owed_to_other_beams(const Entry& leader) const;
  // Returns the sum over running requests, or over those with a hard reservation. Requests that
  // compute all of their tokens in this step already have the blocks for them and do not count.
  BlockCounts sum(bool hard_only) const;
  // Returns the blocks that a beam of `num_tokens` takes beside the first beam of its search.
  BlockCounts blocks_for_beam(int32_t num_tokens, int32_t num_prompt_tokens) const;
  // Returns the blocks that must stay free when a request is admitted beside running ones.
  BlockCounts watermark() const;

  BlockCounts hard;  // promised to running requests with a hard reservation
  BlockCounts all;   // promised to all running requests, for use during admission

 private:
  BlockCounts owed_to_beam(const Entry& beam) const;

  const SchedulerState& state_;
};

}  // namespace quire
