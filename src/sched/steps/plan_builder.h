// PlanBuilder writes a step's grants as a plan, which is the difference to what the executor knows.
// One thread may use it.
#pragma once

#include <vector>

#include "sched/budget/step_budget.h"
#include "sched/requests/scheduler_state.h"

namespace quire {

class PlanBuilder {
 public:
  PlanBuilder(SchedulerState& state, StepBudget& budget) : state_(state), budget_(budget) {}

  // Returns the plan of the step and makes its grants flights. Valid until the next call.
  StepPlan& build();

  const StepPlan& plan() const { return plan_; }
  const std::vector<Entry*>& entries() const { return entries_; }  // parallel to plan().scheduled

 private:
  void clear();
  void add(Entry& entry);
  void add_new_request(const Request& request);
  std::vector<TokenId> copy_of_tokens(const Request& request);
  void finish();

  SchedulerState& state_;
  StepBudget& budget_;
  StepPlan plan_;
  std::vector<Entry*> entries_;
  std::vector<std::vector<TokenId>> spare_tokens_;  // kept memory of new requests in earlier plans
};

}  // namespace quire
