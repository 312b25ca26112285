#include "sched/step_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace quire {
namespace {

constexpr double kMemorySteps = 8.0;  // the average that is a factor spans about this many steps
// A step counts as at most this many times slower or faster than predicted.
constexpr double kMostChange = 4.0;

}  // namespace

double StepTimeLimit::limit_us(double decode_step_us) const {
  return std::max(static_cast<double>(max_step_us), min_decode_steps * decode_step_us);
}

double StepTimePredictor::decode_step_us(int32_t num_decodes, int64_t context) const {
  return table_.step_us + table_.decode_us * num_decodes +
         table_.context_us * static_cast<double>(context);
}

// Token i of the chunk attends to position + i tokens; the sum is approximated by an integral.
double StepTimePredictor::prompt_us(int32_t num_tokens, int32_t position) const {
  const double n = num_tokens;
  return n * (table_.prompt_token_us + table_.prompt_context_us * (position + n / 2));
}

// Returns the n for which prompt_us(n) times the factor is `us`: the root of a n^2 + b n - c = 0.
int32_t StepTimePredictor::tokens_within(double us, int32_t position) const {
  if (us <= 0) return 0;
  const double a = table_.prompt_context_us / 2;
  const double b = table_.prompt_token_us + table_.prompt_context_us * position;
  const double c = us / prompt_.value;
  const double n = 2 * c / (b + std::sqrt(b * b + 4 * a * c));
  return static_cast<int32_t>(std::min<double>(n, std::numeric_limits<int32_t>::max()));
}

void StepTimePredictor::on_planned(uint64_t step_id, int64_t now_us, const StepTimeParts& parts) {
  planned_[step_id % planned_.size()] = {.step_id = step_id, .begin_us = now_us, .parts = parts};
}

// Steps planned ahead run one after the other: a step began when it was planned or when the one
// before it ended, whichever was later.
void StepTimePredictor::on_done(uint64_t step_id, int64_t now_us) {
  const int64_t before_us = std::exchange(last_done_us_, now_us);
  Planned& planned = planned_[step_id % planned_.size()];
  if (planned.step_id != step_id || step_id == 0) return;
  planned.step_id = 0;
  const int64_t took_us = now_us - std::max(planned.begin_us, before_us);
  if (took_us > 0) learn(planned.parts, static_cast<double>(took_us));
}

// A step without prompt tokens updates the factor of decodes; one with prompt tokens updates that
// of prompts, by a weight that is their share of the step.
void StepTimePredictor::learn(const StepTimeParts& parts, double took_us) {
  const double decode_us = decode_.value * parts.decode_us;
  if (parts.prompt_us <= 0) {
    if (parts.decode_us > 0) decode_.learn(took_us / parts.decode_us, 1.0);
    return;
  }
  const double prompt_us = prompt_.value * parts.prompt_us;
  prompt_.learn((took_us - decode_us) / parts.prompt_us, prompt_us / (decode_us + prompt_us));
}

void StepTimePredictor::Factor::learn(double ratio, double share) {
  const bool first = weight == kPriorWeight;  // the machine may differ from its description
  if (!first || ratio <= 0) ratio = std::clamp(ratio, value / kMostChange, value * kMostChange);
  const double sum = weight + share;
  value += (ratio - value) * share / sum;
  weight = std::min(sum, kMemorySteps);
}

}  // namespace quire
