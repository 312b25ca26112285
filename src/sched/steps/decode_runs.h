// DecodeRuns: many steps of decodes at once. Between two changes of the batch a step only moves
// each running request on by one token, takes a block for those that fill one and registers it;
// here each of these is done once per block instead of looked for at every step. One thread.
#pragma once

#include <span>
#include <vector>

#include "sched/budget/preemptions.h"
#include "sched/requests/scheduler_state.h"

namespace quire {

class DecodeRuns {
 public:
  DecodeRuns(SchedulerState& state, StepBudget& budget, Preemptions& preemptions)
      : state_(state), budget_(budget), preemptions_(preemptions) {}

  // Scheduler::max_decode_run() and run_decodes()
  int32_t max_run() const;
  void run(int64_t begin_us, std::span<const int64_t> end_us, DecodeTokens& tokens);

 private:
  int32_t run_of(const Entry& entry) const;
  // A request writes the first slot of a block, or the last, once in block_size steps.
  struct Turn {
    size_t step = 0;
    Entry* entry = nullptr;
  };
  void plan_turns(size_t num_steps);
  void append_tokens(size_t num_steps, DecodeTokens& tokens);
  // Lets the requests whose turns come first have them, if those are in this step; returns them.
  std::span<Entry* const> take_turns(std::vector<Turn>& turns, size_t& next, size_t step);
  void grow(size_t step, std::span<Entry* const> growing);
  void pause_admission();
  void fill(size_t step, std::span<Entry* const> filling);
  void add_slot_stats(int64_t num_uncommitted);
  void end_run(int32_t num_steps);

  SchedulerState& state_;
  StepBudget& budget_;
  Preemptions& preemptions_;
  std::vector<Turn> growing_;  // turns by step, each time round the ring block_size steps later
  std::vector<Turn> filling_;
  std::vector<Entry*> turn_;
  std::vector<BlockTableUpdate> unsent_;
  std::vector<HostBlockCopy> unsent_host_copies_;
};

}  // namespace quire
