// Scheduler: steps bounded by time. While somebody decodes, the prompt tokens of a step are cut to
// what is predicted to let it end within SchedulerConfig::step_time.
#include <algorithm>
#include <limits>

#include "sched/scheduler_impl.h"

namespace quire {
namespace {

// However little time there is, a step computes as much of some prompt.
constexpr int32_t kMinChunk = 16;

}  // namespace

void Scheduler::Impl::set_step_times(const StepTimeTable& table) {
  config_.step_time.predicted = table;
  step_times_ = StepTimePredictor(table);
}

// Whether the next token of a running request waits for this step.
bool Scheduler::Impl::decodes(const Entry& entry) const {
  return entry.num_new_tokens() == 1 && entry.next_position() >= entry.request.num_prompt_tokens;
}

void Scheduler::Impl::bound_step_time() {
  step_time_ = {};
  if (!config_.bounds_step_time()) return;
  int32_t num_decodes = 0;
  bool has_prompt = false;
  int64_t context = 0;
  int32_t priority = std::numeric_limits<int32_t>::max();
  for (const Entry* entry : running_) {
    if (!may_compute(*entry)) continue;
    if (!decodes(*entry)) {
      has_prompt = true;
      continue;
    }
    ++num_decodes;
    context += entry->next_position() + 1;
    priority = std::min(priority, entry->request.priority);
  }
  if (num_decodes == 0) return;
  const double decode_us =
      step_times_.decode_factor() * step_times_.decode_step_us(num_decodes, context);
  const double limit_us = config_.step_time.limit_us(decode_us);
  step_time_ = {.bounded = true,
                .limit_us = limit_us,
                .decode_us = decode_us,
                .prompt_us = std::max(0.0, limit_us - decode_us),
                .most_important_priority = priority};
  step_time_.by_priority = has_prompt && config_.policy == SchedulingPolicy::kPriority;
  if (!step_time_.by_priority) return;
  by_priority_.assign(running_.begin(), running_.end());
  std::sort(by_priority_.begin(), by_priority_.end(), [](const Entry* a, const Entry* b) {
    if (a->request.priority != b->request.priority)
      return a->request.priority < b->request.priority;
    return a->arrived_before(*b);
  });
}

// A prompt does not stand back for decodes that are all less important. Nor does one that would
// miss its deadline if it did, and makes it otherwise.
bool Scheduler::Impl::may_exceed_step_time(const Entry& entry, int32_t position) const {
  const Request& request = entry.request;
  if (config_.policy == SchedulingPolicy::kPriority &&
      request.priority < step_time_.most_important_priority) {
    return true;
  }
  if (!request.deadline_us) return false;
  const auto time_left_us = static_cast<double>(*request.deadline_us - now_us_);
  const double prompt_us =
      step_times_.prompt_factor() * step_times_.prompt_us(entry.num_tokens() - position, position);
  const double share = 1.0 - step_time_.decode_us / step_time_.limit_us;
  return step_time_.decode_us + prompt_us <= time_left_us && prompt_us > share * time_left_us;
}

// Whether a waiting request may get a first chunk worth the name.
bool Scheduler::Impl::has_time_for(const Entry& entry) const {
  return !step_time_.bounded || !step_time_.has_chunk ||
         step_times_.tokens_within(step_time_.prompt_us, 0) >= kMinChunk ||
         may_exceed_step_time(entry, 0);
}

// Of `num_tokens` from `position` on, those that the step has time for: at least one, and at least
// kMinChunk for the first prompt of the step, so that every running prompt goes on.
int32_t Scheduler::Impl::clip_to_step_time(const Entry& entry, int32_t position,
                                           int32_t num_tokens) const {
  if (!step_time_.bounded || num_tokens == 1 || may_exceed_step_time(entry, position))
    return num_tokens;
  const int32_t least = step_time_.has_chunk ? 1 : kMinChunk;
  return std::min(num_tokens,
                  std::max(least, step_times_.tokens_within(step_time_.prompt_us, position)));
}

// Tells the predictor what the plan holds.
void Scheduler::Impl::note_step_time() {
  int32_t num_decodes = 0;
  int64_t context = 0;
  StepTimeParts parts;
  for (size_t i = 0; i < plan_.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan_.scheduled[i];
    const int32_t position = scheduled.num_computed_tokens;
    if (scheduled.num_scheduled_tokens - scheduled.num_drafts == 1 &&
        position >= plan_entries_[i]->request.num_prompt_tokens) {
      ++num_decodes;
      context += position + 1;
      if (scheduled.num_drafts > 0)
        parts.prompt_us += step_times_.prompt_us(scheduled.num_drafts, position + 1);
    } else {
      parts.prompt_us += step_times_.prompt_us(scheduled.num_scheduled_tokens, position);
    }
  }
  parts.decode_us = step_times_.decode_step_us(num_decodes, context);
  step_times_.on_planned(plan_.step_id, now_us_, parts);
}

}  // namespace quire
