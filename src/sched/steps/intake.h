// Intake decides whether the scheduler takes a request. One thread may use it.
#pragma once

#include "sched/beams/beams.h"
#include "sched/requests/scheduler_state.h"

namespace quire {

class Intake {
 public:
  Intake(SchedulerState& state, Beams& beams) : state_(state), beams_(beams) {}

  // Scheduler::add().
  Status add(Request request);

 private:
  Status check(const Request& request) const;
  Status check_blocks(const Request& request) const;
  Status check_fork(const Request& request) const;
  int64_t num_tokens_to_queue(const Request& request) const;

  SchedulerState& state_;
  Beams& beams_;
};

}  // namespace quire
