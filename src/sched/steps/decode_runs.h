// DecodeRuns runs many steps of decodes at once. While the batch does not change, a step only moves
// each running request on by one token, and allocates a block or registers a full one for some.
// Here each request is looked at once per block instead of at every step. One thread may use it.
#pragma once

#include <span>
#include <vector>

#include "sched/grants/admission.h"

namespace quire {

class DecodeRuns {
 public:
  DecodeRuns(SchedulerState& state, StepBudget& budget, Preemptions& preemptions,
             const Admission& admission)
      : state_(state), budget_(budget), preemptions_(preemptions), admission_(admission) {}

  // Scheduler::max_decode_run() and run_decodes().
  int32_t max_run(int32_t num_under_way);
  void run(int64_t begin_us, std::span<const int64_t> end_us, DecodeTokens& tokens);

 private:
  int64_t run_of(const Entry& entry, int32_t num_under_way) const;
  int64_t num_steps_with_blocks(int64_t wanted);
  // A step at which a request writes the first slot of a block, or the last; this is every
  // block_size-th step.
  struct Turn {
    size_t step = 0;
    Entry* entry = nullptr;
  };
  void plan_turns(size_t num_steps);
  size_t next_turn(size_t step, size_t next_growing, size_t next_filling) const;
  void append_tokens(size_t num_steps, DecodeTokens& tokens);
  // Returns the entries whose next turn is in this step, and moves their turns on.
  std::span<Entry* const> take_turns(std::vector<Turn>& turns, size_t& next, size_t step);
  void grow(size_t step, std::span<Entry* const> growing);
  void pass_those_who_wait(int32_t num_steps);
  void fill(size_t step, std::span<Entry* const> filling);
  void add_slot_stats(int64_t num_uncommitted, int64_t num_steps);
  void note_times(int64_t begin_us, std::span<const int64_t> end_us);
  void end_run(int32_t num_steps);

  SchedulerState& state_;
  StepBudget& budget_;
  Preemptions& preemptions_;
  const Admission& admission_;
  std::vector<int64_t> first_turns_;  // of max_run()
  bool every_step_ = false;           // every step of the run may take or fill blocks
  // Rings of turns ordered by step; a turn that is taken returns block_size steps later.
  std::vector<Turn> growing_;
  std::vector<Turn> filling_;
  std::vector<Entry*> turn_;
  std::vector<BlockTableUpdate> unsent_;
  std::vector<HostBlockCopy> unsent_host_copies_;
};

}  // namespace quire
