// check_scheduler() checks the scheduler's state against all of its requests and resources: S-1 ..
// S-3, S-9 and S-10. Tests and debug builds call it.
#pragma once

#include "sched/requests/scheduler_state.h"

namespace quire {

Status check_scheduler(const SchedulerState& state);

}  // namespace quire
