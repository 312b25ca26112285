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
  void sort_by_phase();
  void append_tokens(size_t num_steps, DecodeTokens& tokens);
  void step_blocks(size_t step, std::span<Entry* const> growing, std::span<Entry* const> filling);
  void add_slot_stats(int64_t num_uncommitted);
  void end_run(int32_t num_steps);

  SchedulerState& state_;
  StepBudget& budget_;
  Preemptions& preemptions_;
  std::vector<std::vector<Entry*>> phases_;  // the running, by computed tokens modulo block size
  std::vector<BlockTableUpdate> unsent_;
  std::vector<HostBlockCopy> unsent_host_copies_;
};

}  // namespace quire
