// DraftGrants: gives the rest of a step's budget to drafts, which are guesses of the tokens behind
// the known ones, as far as they pay. One thread may use it.
#pragma once

#include <vector>

#include "draft/draft_planner.h"
#include "sched/budget/step_budget.h"

namespace quire {

class DraftGrants {
 public:
  DraftGrants(SchedulerState& state, StepBudget& budget);

  // Gives drafts to the requests that decode in the step.
  void grant();
  DraftPlanner& planner() { return planner_; }

 private:
  DraftStep collect_queries();
  int32_t most_drafts(const Entry& entry) const;
  void collect_candidates(const DraftingCost* cost);
  void propose_chosen();
  void place();
  int32_t room_for(Entry& entry, int32_t num_drafts, const BlockCounts& num_reserved_blocks);

  SchedulerState& state_;
  StepBudget& budget_;
  DraftPlanner planner_;
  // The requests of the step being planned that may have drafts.
  std::vector<DraftQuery> queries_;
  std::vector<Entry*> entries_;             // parallel to queries_
  std::vector<DraftCandidate> candidates_;  // parallel to queries_ too
};

}  // namespace quire
