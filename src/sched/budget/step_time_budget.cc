#include "sched/budget/step_time_budget.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

// A step computes at least this many tokens of some prompt, however little time there is.
constexpr int32_t kMinChunk = 16;

}  // namespace

StepTimeBudget::StepTimeBudget(const SchedulerState& state, const StepRules& rules)
    : state_(state), rules_(rules), predictor_(state.config.step_time.predicted) {
  by_priority_.reserve(static_cast<size_t>(state.config.max_running()));
}

void StepTimeBudget::begin_step() {
  step_ = {};
  const SchedulerConfig& config = state_.config;
  if (!config.bounds_step_time()) return;
  int32_t num_decodes = 0;
  bool has_prompt = false;
  int64_t context = 0;
  int32_t priority = std::numeric_limits<int32_t>::max();
  for (const Entry* entry : state_.roster.running()) {
    if (!rules_.may_compute(*entry)) continue;
    if (!entry->decodes()) {
      has_prompt = true;
      continue;
    }
    ++num_decodes;
    context += entry->next_position() + 1;
    priority = std::min(priority, entry->request.priority);
  }
  if (num_decodes == 0) return;
  const double decode_us =
      predictor_.decode_factor() * predictor_.decode_step_us(num_decodes, context);
  const double limit_us = config.step_time.limit_us(decode_us);
  step_ = {.bounded = true,
           .limit_us = limit_us,
           .decode_us = decode_us,
           .prompt_us = std::max(0.0, limit_us - decode_us),
           .by_priority = has_prompt && config.policy == SchedulingPolicy::kPriority,
           .most_important_priority = priority};
  if (step_.by_priority) sort_by_priority();
}

void StepTimeBudget::sort_by_priority() {
  const std::vector<Entry*>& running = state_.roster.running();
  by_priority_.assign(running.begin(), running.end());
  std::sort(by_priority_.begin(), by_priority_.end(), [](const Entry* a, const Entry* b) {
    if (a->request.priority != b->request.priority)
      return a->request.priority < b->request.priority;
    return a->arrived_before(*b);
  });
}

// A prompt is not cut if it is more important than all decodes, or if it would miss its deadline
// only because it was cut.
bool StepTimeBudget::may_exceed(const Entry& entry, int32_t position) const {
  const Request& request = entry.request;
  if (state_.config.policy == SchedulingPolicy::kPriority &&
      request.priority < step_.most_important_priority) {
    return true;
  }
  if (!request.deadline_us) return false;
  const auto time_left_us = static_cast<double>(*request.deadline_us - state_.now_us);
  const double prompt_us =
      predictor_.prompt_factor() * predictor_.prompt_us(entry.num_tokens() - position, position);
  const double share = 1.0 - step_.decode_us / step_.limit_us;
  return step_.decode_us + prompt_us <= time_left_us && prompt_us > share * time_left_us;
}

bool StepTimeBudget::has_time_for(const Entry& entry) const {
  return !step_.bounded || !step_.has_chunk || num_tokens_left() >= kMinChunk ||
         may_exceed(entry, 0);
}

int32_t StepTimeBudget::clip_bounded(const Entry& entry, int32_t position,
                                     int32_t num_tokens) const {
  if (may_exceed(entry, position)) return num_tokens;
  const int32_t least = step_.has_chunk ? 1 : kMinChunk;
  return std::min(num_tokens, std::max(least, predictor_.tokens_within(step_.prompt_us, position)));
}

void StepTimeBudget::note_plan(const StepPlan& plan, std::span<Entry* const> entries) {
  int32_t num_decodes = 0;
  int64_t context = 0;
  StepTimeParts parts;
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan.scheduled[i];
    const int32_t position = scheduled.num_computed_tokens;
    if (scheduled.num_scheduled_tokens - scheduled.num_drafts == 1 &&
        position >= entries[i]->request.num_prompt_tokens) {
      ++num_decodes;
      context += position + 1;
      if (scheduled.num_drafts > 0)
        parts.prompt_us += predictor_.prompt_us(scheduled.num_drafts, position + 1);
    } else {
      parts.prompt_us += predictor_.prompt_us(scheduled.num_scheduled_tokens, position);
    }
  }
  parts.decode_us = predictor_.decode_step_us(num_decodes, context);
  predictor_.on_planned(plan.step_id, state_.now_us, parts);
}

void StepTimeBudget::note_decodes(uint64_t step_id, int32_t num_decodes, int64_t context) {
  predictor_.on_planned(step_id, state_.now_us,
                        {.decode_us = predictor_.decode_step_us(num_decodes, context)});
}

}  // namespace quire
