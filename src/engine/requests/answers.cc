#include "engine/requests/answers.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

RequestStatus status_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return RequestStatus::kFinishedStopped;
    case FinishReason::kLength:
      return RequestStatus::kFinishedLength;
    case FinishReason::kAbort:
      return RequestStatus::kFinishedAborted;
    case FinishReason::kError:
      break;
  }
  return RequestStatus::kFinishedError;
}

}  // namespace

// Returns false if some delta found no room.
bool Answers::push_to_channel(const Choice& choice, OutputDelta delta) {
  Group& group = *choice.group;
  bool has_room = true;
  if (group.copies_first) {
    OutputDelta copy = delta;
    copy.prompt_logprobs.clear();
    copy.drafts = {};
    for (copy.choice_index = 1; copy.choice_index < std::ssize(group.choices); ++copy.choice_index)
      has_room &= group.channel->push(OutputDelta(copy));
  }
  return group.channel->push(std::move(delta)) && has_room;
}

void Answers::push(Choice& choice, OutputDelta delta) {
  Group& group = *choice.group;
  delta.choice_index = choice.index;
  if (choice.index == 0 && !group.first_delta_sent) {
    group.first_delta_sent = true;
    delta.num_cached_tokens = choice.num_cached_tokens;
    delta.prompt_logprobs = std::move(group.prompt_logprobs);
  }
  if (!group.has_news) {
    group.has_news = true;
    news_.push_back(&group);
  }
  if (push_to_channel(choice, std::move(delta))) return;
  parts_.metrics.on_overflow();
  const Status why = resource_exhausted(
      "stream: the reader left too much unread: more than {} bytes, or some while all streams had "
      "{} bytes",
      limits_.max_unread_bytes, limits_.max_total_unread_bytes);
  if (choice.finished) {  // its last delta found no room
    OutputDelta last;
    last.choice_index = choice.index;
    last.finish_reason = FinishReason::kAbort;
    last.status = why;
    push_to_channel(choice, std::move(last));
  }
  end_group(group, FinishReason::kAbort, why);
}

void Answers::end(Choice& choice, FinishReason reason, Status status, OutputDelta delta) {
  // This has no effect if the scheduler has already ended the request.
  parts_.scheduler.finish(choice.request_id, status_of(reason));
  parts_.groups.remove_computed(choice.request_id);
  parts_.masks.remove(choice);
  note_end(choice, choice, reason);
  if (choice.group->copies_first) {
    for (Choice& other : choice.group->choices) {
      if (!other.finished) note_end(other, choice, reason);
    }
  }
  delta.finish_reason = reason;
  delta.times = choice.times;
  delta.drafts = choice.drafts;
  delta.status = std::move(status);
  const Request* const request = parts_.scheduler.find(choice.request_id);
  if (request != nullptr && parts_.handovers.waits_for(*choice.group, reason)) {
    parts_.handovers.begin({.choice = &choice, .delta = std::move(delta)}, *request,
                           parts_.clock.now_us());
  } else {
    push(choice, std::move(delta));
  }
}

void Answers::note_end(Choice& choice, const Choice& computed, FinishReason reason) {
  Group& group = *choice.group;
  choice.finished = true;
  --group.num_unfinished;
  parts_.metrics.on_finished(reason, {.times = computed.times,
                                      .num_prompt_tokens = group.num_prompt_tokens,
                                      .num_cached_tokens = computed.num_cached_tokens,
                                      .num_output_tokens = computed.num_output_tokens,
                                      .max_tokens = computed.params->max_tokens,
                                      .num_preemptions = computed.num_preemptions});
  if (reason == FinishReason::kStop || reason == FinishReason::kLength) {
    group.any_succeeded = true;
    group.max_output_tokens = std::max(group.max_output_tokens, computed.num_output_tokens);
  }
}

void Answers::end_group(Group& group, FinishReason reason, const Status& status) {
  for (Choice& choice : group.choices) {
    if (choice.finished) continue;
    OutputDelta delta;
    if (choice.text) choice.text->finish(delta.text);
    end(choice, reason, status, std::move(delta));
  }
  if (auto answer = parts_.handovers.take_back(group)) {
    answer->delta.finish_reason = reason;
    answer->delta.status = status;
    push(*answer->choice, std::move(answer->delta));
  }
}

void Answers::fail(Choice& choice, const Status& why) {
  if (choice.kind == RequestKind::kBeam) {
    end_group(*choice.group, FinishReason::kError, why);
  } else {
    end(choice, FinishReason::kError, why);
  }
}

int64_t Answers::end_all(FinishReason reason, const Status& status) {
  const auto num_groups = std::ssize(parts_.groups.all());
  for (auto& [id, group] : parts_.groups.all()) end_group(*group, reason, status);
  flush();
  return num_groups;
}

void Answers::push_handed_over(int64_t now_us) {
  for (KvHandovers::Answer& answer : parts_.handovers.poll(now_us))
    push(*answer.choice, std::move(answer.delta));
}

void Answers::flush() {
  for (const Group* group : news_) {
    if (!is_over(*group) || !group->any_succeeded) continue;
    parts_.metrics.on_group_finished(static_cast<int32_t>(group->choices.size()),
                                     group->max_output_tokens);
  }
  parts_.gauges.publish();
  for (Group* group : news_) {
    group->has_news = false;
    group->channel->notify();
    if (is_over(*group)) parts_.groups.erase(group->id);
  }
  news_.clear();
}

}  // namespace quire
