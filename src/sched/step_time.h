// How long steps take, predicted from counts alone, so that the scheduler can keep them short while
// somebody is decoding. Decision 013 (docs/decisions/013-step-time.md) says why it is done this
// way.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// What a step takes is taken to be linear in its counts. Made once, from a cost model
// (step_time_table(), engine/observe/step_cost.h). All zero: nothing is known, and no step is
// bounded.
struct StepTimeTable {
  double step_us = 0;            // a step at all: reading the weights, the host's work
  double decode_us = 0;          // each decoding request
  double context_us = 0;         // each token of context that a decoding request attends to
  double prompt_token_us = 0;    // each prompt token
  double prompt_context_us = 0;  // each pair of a prompt token and a token that it attends to

  bool known() const { return prompt_token_us > 0; }
};

// A step in which somebody decodes takes no more prompt tokens than are predicted to let it end
// within the limit: the larger of max_step_us and min_decode_steps pure decode steps.
struct StepTimeLimit {
  StepTimeTable predicted;
  int64_t max_step_us = 0;      // 0: steps are not bounded by time
  double min_decode_steps = 0;  // keeps a slow model's prompts moving beside its decodes

  // What a server does unless told otherwise. 100 ms between tokens reads as a steady flow.
  static StepTimeLimit automatic() { return {.max_step_us = 100'000, .min_decode_steps = 4}; }
  bool bounds() const { return max_step_us > 0 && predicted.known(); }
  double limit_us(double decode_step_us) const;
};

// The parts of a step's predicted time before they are corrected by what steps really took.
struct StepTimeParts {
  double decode_us = 0;  // the step with its decodes alone
  double prompt_us = 0;  // what its prompt tokens add
};

// Predicts steps: the table, times two factors that follow what steps took on this machine, one for
// decodes (bound by memory) and one for prompts (bound by arithmetic). The factors are a function
// of the calls made, with the times that came with them: the same calls give the same predictions.
// One thread; allocates nothing.
class StepTimePredictor {
 public:
  explicit StepTimePredictor(const StepTimeTable& table) : table_(table) {}

  // Predicts by the table alone. `context` is the sum of the tokens that each decode attends to.
  double decode_step_us(int32_t num_decodes, int64_t context) const;
  double prompt_us(int32_t num_tokens, int32_t position) const;

  double decode_factor() const { return decode_.value; }
  double prompt_factor() const { return prompt_.value; }
  // The most prompt tokens from `position` on that are predicted to take at most `us`, with the
  // factor.
  int32_t tokens_within(double us, int32_t position) const;

  // A step was planned, and its outcome came. Steps end in the order of their ids; one that never
  // ends is forgotten when a later one does.
  void on_planned(uint64_t step_id, int64_t now_us, const StepTimeParts& parts);
  void on_done(uint64_t step_id, int64_t now_us);

 private:
  // The table's own word counts as much as this part of a measured step.
  static constexpr double kPriorWeight = 0.125;
  struct Factor {
    double value = 1.0;
    double weight = kPriorWeight;  // of the steps seen, at most kMemorySteps
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
  std::array<Planned, 8> planned_{};  // by step id modulo the size
  int64_t last_done_us_ = 0;
};

}  // namespace quire
