// Whether the scheduler's state is sound: S-1 .. S-3, S-9 and S-10, checked against everything that
// it holds. For tests and debug builds.
#pragma once

#include "sched/requests/scheduler_state.h"

namespace quire {

Status check_scheduler(const SchedulerState& state);

}  // namespace quire
