// SchedulerState is what all parts of the scheduler work on.
#pragma once

#include "sched/requests/roster.h"
#include "sched/scheduler.h"

namespace quire {

struct SchedulerState {
  SchedulerConfig config;
  KvManager& kv;
  Drafter* const drafter;      // null: no drafts
  const bool stops_for_forks;  // leaders of forks must, since layers keep states
  Roster roster;
  SchedulerStats stats;  // those of its counts that only grow

  // Of the step being planned.
  int64_t now_us = 0;
};

}  // namespace quire
