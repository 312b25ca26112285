// SchedulerState is the state that all parts of the scheduler work on.
#pragma once

#include "sched/requests/roster.h"
#include "sched/scheduler.h"

namespace quire {

struct SchedulerState {
  SchedulerConfig config;
  KvManager& kv;
  Drafter* const drafter;  // null: there are no drafts
  // The leaders of forks stop before their last prompt token, since layers keep states.
  const bool stops_for_forks;
  Roster roster;
  SchedulerStats stats;  // only the counts that never decrease

  // Time of the step being planned.
  int64_t now_us = 0;
};

}  // namespace quire
