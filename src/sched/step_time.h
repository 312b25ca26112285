// Predicts the time of steps from counts alone, so that the scheduler can keep steps short while
// some request is decoding. Decision 013 (docs/decisions/013-step-time.md) gives the reasons for
// this design.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// A model of step time that is linear in the step's counts. It is made once, from a cost model
// (step_time_table(), engine/observe/step_cost.h). All zero: nothing is known, and no step is
// bounded.
struct StepTimeTable {
  double step_us = 0;            // for any step: reading the weights, the host's work
  double decode_us = 0;          // for each decoding request
  double context_us = 0;         // for each token of context that a decoding request attends to
  double prompt_token_us = 0;    // for each prompt token
  double prompt_context_us = 0;  // for each pair of a prompt token and a token that it attends to

  bool known() const { return prompt_token_us > 0; }
};

// A step in which a request decodes takes only as many prompt tokens as are predicted to let it end
// within the limit, which is the larger of max_step_us and min_decode_steps pure decode steps.
struct StepTimeLimit {
  StepTimeTable predicted;
  int64_t max_step_us = 0;      // 0: steps are not bounded by time
  double min_decode_steps = 0;  // keeps the prompts of a slow model moving beside its decodes

  // The default of servers: 100 ms between tokens reads as a steady flow.
  static StepTimeLimit automatic() { return {.max_step_us = 100'000, .min_decode_steps = 4}; }
  bool bounds() const { return max_step_us > 0 && predicted.known(); }
  double limit_us(double decode_step_us) const;
};

// The parts of a step's predicted time, before they are corrected by measured steps.
struct StepTimeParts {
  double decode_us = 0;  // for the step with its decodes alone
  double prompt_us = 0;  // added by its prompt tokens
};

// Predicts the time of steps as the table's time multiplied by two factors that follow the times
// measured on this machine, one for decodes (bound by memory) and one for prompts (bound by
// arithmetic). The same calls with the same times give the same predictions. Used by one thread;
// allocates nothing.
class StepTimePredictor {
 public:
  explicit StepTimePredictor(const StepTimeTable& table) : table_(table) {}

  // These two predict by the table alone. `context` is the sum of the tokens that each decode
  // attends to.
  double decode_step_us(int32_t num_decodes, int64_t context) const;
  double prompt_us(int32_t num_tokens, int32_t position) const;

  double decode_factor() const { return decode_.value; }
  double prompt_factor() const { return prompt_.value; }
  // Returns the most prompt tokens from `position` on that are predicted to take at most `us`, with
  // the prompt factor.
  int32_t tokens_within(double us, int32_t position) const;

  // These two say that a step was planned and that its outcome came. Steps end in the order of
  // their ids; one that never ends is forgotten when a later one does.
  void on_planned(uint64_t step_id, int64_t now_us, const StepTimeParts& parts);
  void on_done(uint64_t step_id, int64_t now_us);

 private:
  // The weight of the table's prediction, in measured steps.
  static constexpr double kPriorWeight = 0.125;
  struct Factor {
    double value = 1.0;
    double weight = kPriorWeight;  // in steps, at most kMemorySteps
    void learn(double ratio, double share);
  };
  struct Planned {
    uint64_t step_id = 0;  // 0: none
    int64_t begin_us = 0;
    StepTimeParts parts;
  };

  void learn(const StepTimeParts& parts, double took_us);

  StepTimeTable table_;
  Factor decode_;
  Factor prompt_;
  std::array<Planned, 8> planned_{};  // at step id modulo the size
  int64_t last_done_us_ = 0;
};

}  // namespace quire
