// Preemptions: a preempted request gives up its blocks and waits again. Its KV is recomputed later;
// there is no other kind of preemption. Its full blocks stay in the prefix cache as long as nobody
// needs them. One thread may use it.
#pragma once

#include "sched/budget/step_budget.h"

namespace quire {

class Preemptions {
 public:
  Preemptions(SchedulerState& state, StepBudget& budget) : state_(state), budget_(budget) {}

  void begin_step() { any_ = false; }
  // Whether the step being planned has preempted a request.
  bool any() const { return any_; }
  // Preempts the request, or all beams of its search. The caller calls Roster::compact_running()
  // after it.
  void preempt(Entry& entry);

  // Whether admission pauses. After a preemption nobody is admitted until there is room again for
  // the watermark and for each running request to grow by a block beside what has been promised;
  // otherwise the next step would preempt again.
  bool pauses_admission(const BlockCounts& promised) const;
  // Returns pauses_admission(), and ends the pause if there is room. Precondition:
  // BlockPromises::all is up to date.
  bool pause_admission();

 private:
  void stop(Entry& entry);

  SchedulerState& state_;
  StepBudget& budget_;
  bool any_ = false;
  bool paused_ = false;
};

}  // namespace quire
