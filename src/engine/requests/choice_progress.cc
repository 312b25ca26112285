#include "engine/requests/choice_progress.h"

#include <optional>
#include <span>
#include <utility>

#include "engine/requests/token_times.h"

namespace quire {
namespace {

FinishReason reason_of(RequestStatus status) {
  switch (status) {
    case RequestStatus::kFinishedStopped:
      return FinishReason::kStop;
    case RequestStatus::kFinishedLength:
      return FinishReason::kLength;
    case RequestStatus::kFinishedAborted:
      return FinishReason::kAbort;
    default:
      return FinishReason::kError;
  }
}

}  // namespace

void ChoiceProgress::on_scheduled(const StepPlan& plan, int64_t now_us) {
  for (const NewRequest& added : plan.new_requests) {
    Choice* choice = parts_.groups.find(added.id);
    if (choice == nullptr) continue;
    if (choice->scheduled) {  // it resumes, or is a beam that has moved
      choice->num_preemptions += choice->kind != RequestKind::kBeam;
      continue;
    }
    choice->scheduled = true;
    choice->times.first_scheduled_us = now_us;
    const Request* const request = parts_.scheduler.find(added.id);
    if (const Status taken = parts_.handovers.check_taken(*choice, request); !taken.ok())
      parts_.answers.end_group(*choice->group, FinishReason::kError, taken);
  }
}

void ChoiceProgress::apply(const RequestUpdate& update, int64_t now_us) {
  Choice* choice = parts_.groups.find(update.id);
  if (choice == nullptr || choice->finished) return;
  if (choice->kind == RequestKind::kBeam) return beams_.apply(*choice, update, now_us);
  if (choice->index == 0 && update.result != nullptr) {
    collect_prompt_logprobs(*choice->group, *update.result);
  }
  if (update.num_drafts > 0) note_drafts(*choice, update);
  if (!update.status.ok()) {
    if (update.status.code() == StatusCode::kInternal) parts_.metrics.on_corrupted();
    parts_.answers.end(*choice, reason_of(*update.finished), update.status);
  } else if (!update.new_token_ids.empty() || update.finished) {
    take_tokens(*choice, update, now_us);
  }
}

void ChoiceProgress::take_tokens(Choice& choice, const RequestUpdate& update, int64_t now_us) {
  OutputDelta delta;
  const bool stopped = update.finished == RequestStatus::kFinishedStopped;
  const std::span<const TokenLogprobs> logprobs =
      update.result ? std::span<const TokenLogprobs>(update.result->logprobs)
                    : std::span<const TokenLogprobs>();
  std::optional<size_t> stop =
      append_tokens(choice, update.new_token_ids, logprobs, stopped, delta);
  note_tokens(choice, static_cast<int32_t>(delta.token_ids.size()), now_us,
              choice.prompt_done ? nullptr : parts_.scheduler.find(choice.request_id),
              parts_.metrics);
  if (!stop && !update.finished) {
    Status accepted = parts_.masks.accept(choice, update.new_token_ids);
    if (accepted.ok()) return parts_.answers.push(choice, std::move(delta));
    return parts_.answers.end(choice, FinishReason::kError, std::move(accepted), std::move(delta));
  }
  if (!stop && choice.text) stop = choice.text->finish(delta.text);
  if (stop) {
    delta.stop_reason = choice.params->stop[*stop];
  } else if (update.stop_token_id) {
    delta.stop_reason = *update.stop_token_id;
  }
  if (update.result != nullptr) delta.pooled = update.result->pooled;
  const FinishReason reason = stop ? FinishReason::kStop : reason_of(*update.finished);
  parts_.answers.end(choice, reason, update.status, std::move(delta));
}

void ChoiceProgress::note_drafts(Choice& choice, const RequestUpdate& update) {
  parts_.metrics.on_drafts(update.num_drafts, update.num_accepted_drafts);
  DraftCounts counts{
      .num_steps = 1, .num_drafts = update.num_drafts, .num_accepted = update.num_accepted_drafts};
  if (update.drafts_from_prediction) {
    counts.num_prediction_drafts = counts.num_drafts;
    counts.num_prediction_accepted = counts.num_accepted;
  }
  choice.drafts.add(counts);
}

void ChoiceProgress::fail_step(const StepPlan& plan, const Status& status) {
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    Choice* choice = parts_.groups.find(scheduled.id);
    if (choice == nullptr || choice->finished) continue;
    parts_.answers.fail(*choice, status.with_context("step failed"));
  }
}

void ChoiceProgress::expire(int64_t now_us) {
  for (const RequestId id : parts_.scheduler.expire(now_us)) {
    Choice* choice = parts_.groups.find(id);
    if (choice == nullptr || choice->finished) continue;
    parts_.metrics.on_deadline();
    parts_.answers.fail(*choice, deadline_exceeded("request: not finished after {} ms",
                                                   (now_us - choice->times.arrival_us) / 1000));
  }
}

}  // namespace quire
