// Beams: the beams of searches. Each beam is a request of its own, so that a step runs it like any
// other; but all beams of a search start and end together, and a beam may go on with the text of
// another. One thread may use it.
#pragma once

#include <span>
#include <vector>

#include "sched/budget/preemptions.h"
#include "sched/budget/step_budget.h"

namespace quire {

class Beams {
 public:
  Beams(SchedulerState& state, StepBudget& budget, Preemptions& preemptions)
      : state_(state), budget_(budget), preemptions_(preemptions) {}

  // Returns an error if the beam must not be added: kInvalidArgument or kTooLarge.
  Status check(const Request& request) const;
  // Makes a new entry the first beam of a search, or if it has a leader, a further beam of that
  // search.
  void join(Entry& entry);
  // Ends the search. The caller calls Roster::compact_running() after it.
  void retire(Entry& leader, RequestStatus status);
  // The leader has been admitted: this makes the other beams of its search running too.
  void start_others(Entry& leader);
  // Gives a running beam the blocks of the prompt that its leader has computed.
  void take_prompt(Entry& beam);

  // Scheduler::move_beams().
  void note_moves(std::span<const BeamMove> moves);
  // Carries out the noted moves, at the beginning of a step.
  void begin_step();

 private:
  void move(Entry& leader);
  void leave_text(Entry& beam);
  bool fork(Entry& beam);

  SchedulerState& state_;
  StepBudget& budget_;
  Preemptions& preemptions_;
  std::vector<Entry*> moving_;  // leaders of searches whose beams move in the next step
};

}  // namespace quire
