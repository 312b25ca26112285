// RunningGrants decides how many tokens each running request computes in the step, and which
// request is preempted when another cannot get the blocks for it. One thread may use it.
#pragma once

#include "sched/beams/beams.h"
#include "sched/budget/preemptions.h"
#include "sched/budget/step_budget.h"

namespace quire {

class RunningGrants {
 public:
  RunningGrants(SchedulerState& state, StepBudget& budget, Preemptions& preemptions, Beams& beams)
      : state_(state), budget_(budget), preemptions_(preemptions), beams_(beams) {}

  // Grants tokens to running requests until the step's budget is spent.
  void grant();

 private:
  int32_t num_timely(const Entry& entry, int32_t num_behind) const;
  bool make_room(Entry& entry, int32_t num_tokens);

  SchedulerState& state_;
  StepBudget& budget_;
  Preemptions& preemptions_;
  Beams& beams_;
};

}  // namespace quire
