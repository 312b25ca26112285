// StepBudget: what the step being planned has left to give, in tokens, time and blocks. One thread.
#pragma once

#include "sched/budget/block_promises.h"
#include "sched/budget/step_rules.h"
#include "sched/budget/step_time_budget.h"

namespace quire {

struct StepBudget {
  explicit StepBudget(const SchedulerState& state)
      : rules(state), time(state, rules), promises(state) {}

  void grant(Entry& entry, int32_t new_tokens) {
    time.spend(entry, new_tokens);
    entry.num_granted = new_tokens;
    num_tokens -= new_tokens;
  }
  void grant_drafts(Entry& entry, int32_t num_drafts) {
    entry.num_granted += num_drafts;
    num_tokens -= num_drafts;
    time.spend_drafts(num_drafts, entry.request.num_tokens());
  }
  // A running request gives back what it has of this step and was promised.
  void take_back(const Entry& entry) {
    num_tokens += entry.num_granted;
    if (entry.hard) promises.hard -= promises.owed(entry);
  }

  StepRules rules;
  StepTimeBudget time;
  BlockPromises promises;
  int32_t num_tokens = 0;
};

}  // namespace quire
