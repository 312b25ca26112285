// StepBudget: the tokens, requests, time and blocks that the step being planned can still grant.
// One thread may use it.
#pragma once

#include "sched/budget/block_promises.h"
#include "sched/budget/step_rules.h"
#include "sched/budget/step_time_budget.h"

namespace quire {

struct StepBudget {
  explicit StepBudget(const SchedulerState& state)
      : rules(state), time(state, rules), promises(state) {}

  // Called before any grant of the step.
  void begin_step(int32_t most_tokens, int32_t most_requests) {
    num_tokens = max_tokens = most_tokens;
    num_requests = most_requests;
  }
  // Whether the step has room for another request.
  bool has_room() const { return num_tokens > 0 && num_requests > 0; }
  void grant(Entry& entry, int32_t new_tokens) {
    time.spend(entry, new_tokens);
    entry.num_granted = new_tokens;
    num_tokens -= new_tokens;
    --num_requests;
  }
  void grant_drafts(Entry& entry, int32_t num_drafts) {
    entry.num_granted += num_drafts;
    num_tokens -= num_drafts;
    time.spend_drafts(num_drafts, entry.request.num_tokens());
  }
  // Takes back what the step has granted to a running request, and what the request was promised.
  void take_back(const Entry& entry) {
    num_tokens += entry.num_granted;
    if (entry.num_granted > 0) ++num_requests;
    if (entry.hard) promises.hard -= promises.owed(entry);
  }

  StepRules rules;
  StepTimeBudget time;
  BlockPromises promises;
  int32_t num_tokens = 0;
  int32_t num_requests = 0;
  int32_t max_tokens = 0;  // of the whole step, at its beginning
};

}  // namespace quire
