// What a model that drafts computes beside the steps of the served model, and how long it takes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/step.h"
#include "draft/row_times.h"
#include "sim/replica/step_timer.h"

namespace quire::sim {

// The replicas of a pool share it.
struct DraftingTimes {
  std::shared_ptr<const StepTimer> timer;  // null: drafts take nothing but their rows
  RowTimes step_times;  // of one draft for each of so many requests: what planners weigh
};

// The drafting model takes a step for each place of a draft, with a token of every request that has
// a draft there. At the first place it reads what it has not read of the request: a prompt, or
// what came out otherwise than it had drafted. The host works for the served model's step alone.
class DraftingWork {
 public:
  void clear();
  // The model has read `num_read` tokens of the request, which is brought up to date.
  void add(const ScheduledRequest& scheduled, const StepTimer& timer, int32_t& num_read);
  int64_t ns(const StepTimer& timer) const;

 private:
  std::vector<StepShape> by_place_;
};

}  // namespace quire::sim
