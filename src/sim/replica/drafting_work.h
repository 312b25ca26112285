// DraftingWork is what a drafting model computes beside the steps of the served model, and how long
// that takes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/step.h"
#include "draft/row_times.h"
#include "sim/replica/step_timer.h"

namespace quire::sim {

// The replicas of a pool share a DraftingTimes.
struct DraftingTimes {
  std::shared_ptr<const StepTimer> timer;  // null means that drafts cost only their rows
  RowTimes step_times;  // time of one draft each for a number of requests, for planning drafts
};

// The drafting model takes one step for each position of a draft, with a token of every request
// that has a draft at that position. At the first position it also reads the tokens of a request
// that it has not read: a prompt, or tokens that differ from its draft. Host time is counted only
// for the served model's step.
class DraftingWork {
 public:
  void clear();
  // Adds the drafts of a request of which the drafting model has read `num_read` tokens, and
  // updates `num_read`.
  void add(const ScheduledRequest& scheduled, const StepTimer& timer, int32_t& num_read);
  int64_t ns(const StepTimer& timer) const;

 private:
  std::vector<StepShape> by_place_;
};

}  // namespace quire::sim
