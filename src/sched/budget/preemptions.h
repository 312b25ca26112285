// Preemptions: running requests that give up their blocks and wait again, and what follows for
// those that wait. Recompute is the only kind: the full blocks of a preempted request stay in the
// prefix cache as long as nobody needs them. One thread may use it.
#pragma once

#include "sched/budget/step_budget.h"

namespace quire {

class Preemptions {
 public:
  Preemptions(SchedulerState& state, StepBudget& budget) : state_(state), budget_(budget) {}

  void begin_step() { any_ = false; }
  // Whether there was one in the step being planned.
  bool any() const { return any_; }
  // Preempts the request, a beam with all of its search. The caller calls
  // Roster::compact_running().
  void preempt(Entry& entry);

  // After a preemption nobody is admitted until there is room again for the watermark and for each
  // running request to grow by a block beside what has been promised, or the next step would preempt
  // once more.
  bool pauses_admission(const BlockCounts& promised) const;
  // The same, and the pause ends when there is room.
  // Precondition: BlockPromises::all is up to date.
  bool pause_admission();

 private:
  void stop(Entry& entry);

  SchedulerState& state_;
  StepBudget& budget_;
  bool any_ = false;
  bool paused_ = false;
};

}  // namespace quire
