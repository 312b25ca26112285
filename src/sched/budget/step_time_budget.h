// StepTimeBudget: bounds steps by time. While a running request decodes, the prompt tokens of a
// step are cut to the number that is predicted to end within SchedulerConfig::step_time. One thread
// may use it.
#pragma once

#include <span>
#include <vector>

#include "sched/budget/step_rules.h"
#include "sched/requests/scheduler_state.h"
#include "sched/step_time.h"

namespace quire {

class StepTimeBudget {
 public:
  StepTimeBudget(const SchedulerState& state, const StepRules& rules);

  // Replaces the table. What was learned about the machine with the old one is forgotten.
  void set_table(const StepTimeTable& table) { predictor_ = StepTimePredictor(table); }

  // Computes the step's time limit from the running requests that may compute.
  void begin_step();
  bool is_bounded() const { return step_.bounded; }
  // Returns the running requests in the order in which they are granted tokens.
  const std::vector<Entry*>& order() const {
    return step_.by_priority ? by_priority_ : state_.roster.running();
  }
  // Whether there is time for a first chunk of useful size for a waiting request.
  bool has_time_for(const Entry& entry) const;
  // Returns how many of `num_tokens` from `position` on the step has time for: at least one, so
  // that every running prompt goes on, and for the first prompt of the step at least a chunk.
  int32_t clip(const Entry& entry, int32_t position, int32_t num_tokens) const {
    return step_.bounded && num_tokens != 1 ? clip_bounded(entry, position, num_tokens)
                                            : num_tokens;
  }
  // Takes the time for `num_tokens` of a request out of the step.
  void spend(const Entry& entry, int32_t num_tokens) {
    if (!step_.bounded || entry.decodes()) return;
    spend_prompt_time(num_tokens, entry.next_position());
    step_.has_chunk = true;
  }
  // Takes the time for verifying `num_drafts` behind `position` known tokens out of the step.
  void spend_drafts(int32_t num_drafts, int32_t position) {
    if (step_.bounded) spend_prompt_time(num_drafts, position);
  }
  // Returns how many prompt tokens there is still time for beside the decodes. Precondition:
  // is_bounded().
  int32_t num_tokens_left() const { return predictor_.tokens_within(step_.prompt_us, 0); }

  // These three tell the predictor of a plan, whose requests are `entries`, of a step of decodes
  // alone, and of the end of a step.
  void note_plan(const StepPlan& plan, std::span<Entry* const> entries);
  void note_decodes(uint64_t step_id, int32_t num_decodes, int64_t context);
  void note_done(uint64_t step_id, int64_t now_us) { predictor_.on_done(step_id, now_us); }

 private:
  struct Step {
    bool bounded = false;
    double limit_us = 0;
    double decode_us = 0;                 // of limit_us, predicted for the decodes
    double prompt_us = 0;                 // of limit_us, left for prompt tokens
    bool by_priority = false;             // prompts are granted tokens in the order of by_priority_
    bool has_chunk = false;               // a prompt has been granted tokens in this step
    int32_t most_important_priority = 0;  // of the decoding requests
  };

  void sort_by_priority();
  bool may_exceed(const Entry& entry, int32_t position) const;
  int32_t clip_bounded(const Entry& entry, int32_t position, int32_t num_tokens) const;
  void spend_prompt_time(int32_t num_tokens, int32_t position) {
    step_.prompt_us -= predictor_.prompt_factor() * predictor_.prompt_us(num_tokens, position);
  }

  const SchedulerState& state_;
  const StepRules& rules_;
  StepTimePredictor predictor_;
  Step step_;
  std::vector<Entry*> by_priority_;  // the running requests by priority, if Step::by_priority
};

}  // namespace quire
