// BlockPromises: the blocks that requests will still take, so that nobody else is given them. A
// running request with a hard reservation has been promised its longest output, any other one the
// rest of its known tokens (SchedulerConfig::reserve_full_isl). One thread may use it.
#pragma once

#include "sched/requests/scheduler_state.h"

namespace quire {

class BlockPromises {
 public:
  explicit BlockPromises(const SchedulerState& state) : state_(state) {}

  // Counts anew what hard reservations have been promised. At the beginning of a step.
  void begin_step() { hard = sum(/*hard_only=*/true); }
  // Counts anew what everybody has been promised.
  void begin_admission() { all = sum(/*hard_only=*/false); }

  // What a running request will take beyond what it has, or a beam that waits for its place.
  BlockCounts owed(const Entry& entry) const;
  BlockCounts owed_to_other_beams(const Entry& leader) const;
  // What all have been promised, or those with a hard reservation, apart from those that take all
  // of theirs in this step.
  BlockCounts sum(bool hard_only) const;
  // Returns the blocks that a beam of so many tokens takes beside the first beam of its search.
  BlockCounts blocks_for_beam(int32_t num_tokens, int32_t num_prompt_tokens) const;
  // Returns the blocks that stay free when a request is admitted beside running ones.
  BlockCounts watermark() const;

  BlockCounts hard;  // promised to running requests with a hard reservation
  BlockCounts all;   // promised to running requests, while others are admitted

 private:
  BlockCounts owed_to_beam(const Entry& beam) const;

  const SchedulerState& state_;
};

}  // namespace quire
