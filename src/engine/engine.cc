#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "base/log.h"
#include "engine/observe/row_time_probe.h"
#include "engine/step_check.h"

namespace quire {
namespace {

constexpr size_t kStepRecords = 512;
// More than a step would draft of it.
constexpr size_t kMaxForcedBytes = 64;

EngineStats constants_of(const EngineOptions& options, const KvSpec& spec, const KvSizing& sizing) {
  EngineStats stats;
  stats.block_size = spec.block_size;
  stats.num_kv_blocks = std::max(0, sizing.plan.num_blocks - 1);
  stats.num_state_blocks = std::max(0, sizing.plan.num_state_blocks - 1);
  stats.state_block_size = spec.uses(KvPool::kState) ? spec.state.block_size : 0;
  stats.kv_bytes = sizing.kv_bytes;
  stats.prefix_caching = options.kv.enable_prefix_caching;
  stats.max_model_len = options.scheduler.max_model_len;
  stats.max_num_seqs = options.scheduler.max_num_seqs;
  stats.max_loras = options.scheduler.max_loras;
  stats.max_num_batched_tokens = options.scheduler.max_num_batched_tokens;
  return stats;
}

RequestLimits limits_of(const EngineOptions& options, const ExecutorInfo& model,
                        bool has_tokenizer) {
  return {.vocab_size = model.vocab_size,
          .max_model_len = options.scheduler.max_model_len,
          .max_logprobs = options.max_logprobs,
          .max_prompt_logprobs_bytes = options.max_prompt_logprobs_bytes,
          .max_num_seqs = options.scheduler.max_num_seqs,
          .max_num_queued_reqs = options.scheduler.max_num_queued_reqs,
          .max_num_queued_tokens = options.scheduler.max_num_queued_tokens,
          .has_tokenizer = has_tokenizer,
          .generates = model.generates,
          .pooling = model.pooling,
          .media = model.media};
}

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

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
    case FinishReason::kError:
      break;
  }
  return "error";
}

Result<std::unique_ptr<Engine>> Engine::create(EngineOptions options,
                                               std::unique_ptr<Executor> executor,
                                               std::shared_ptr<const Tokenizer> tokenizer,
                                               std::shared_ptr<const Clock> clock) {
  const KvSpec spec = executor->kv_spec();
  options.scheduler.async_scheduling &=
      executor->max_steps_in_flight() > 1 && executor->feeds_its_samples();
  options.scheduler.pipeline_depth =
      executor->feeds_its_samples() ? 1 : executor->max_steps_in_flight();
  QUIRE_ASSIGN_OR_RETURN(KvSizing sizing,
                         plan_kv(options, executor->info(), spec, executor->available_kv_bytes()));
  if (executor->keeps_blocks_on_host())
    sizing.plan.num_host_blocks = count_host_blocks(options.kv_offload_bytes, spec);
  options.kv.num_host_blocks = sizing.plan.num_host_blocks;
  options.kv.num_state_blocks = sizing.plan.num_state_blocks;
  options.scheduler.max_model_len = sizing.max_model_len;
  if (executor->info().pooling.is_bidirectional) {
    options.scheduler.enable_chunked_prefill = false;
    options.kv.enable_prefix_caching = false;
  }
  options.scheduler.encoder_cache_tokens = executor->info().media.max_cached_embeddings;
  options.scheduler.media_is_bidirectional = executor->info().media.is_bidirectional;
  options.kv.max_sequence_tokens = sizing.max_model_len;
  options.kv.max_step_tokens = options.scheduler.max_uncommitted_tokens();
  QUIRE_RETURN_IF_ERROR(options.scheduler.validate());
  QUIRE_RETURN_IF_ERROR(executor->initialize(sizing.plan));
  QUIRE_RETURN_IF_ERROR(executor->warm_up());
  std::unique_ptr<KvFiles> kv_files;
  if (options.open_kv_files) {
    QUIRE_ASSIGN_OR_RETURN(kv_files, options.open_kv_files(executor->host_blocks()));
    options.kv.files.files = kv_files.get();
  }
  const bool drafts = options.drafter != nullptr && options.scheduler.num_speculative_tokens > 0;
  if (drafts) options.structured_outputs.max_forced_bytes = kMaxForcedBytes;
  if (drafts && options.weigh_drafts && !options.scheduler.draft_planner.row_times.known()) {
    options.scheduler.draft_planner.row_times =
        measure_row_times(*executor, sizing.plan, options.scheduler.max_num_batched_tokens, *clock);
  }
  return std::unique_ptr<Engine>(new Engine(std::move(options), std::move(executor),
                                            std::move(kv_files), std::move(tokenizer),
                                            std::move(clock), sizing));
}

Engine::Engine(EngineOptions options, std::unique_ptr<Executor> executor,
               std::unique_ptr<KvFiles> kv_files, std::shared_ptr<const Tokenizer> tokenizer,
               std::shared_ptr<const Clock> clock, const KvSizing& sizing)
    : options_(std::move(options)),
      executor_(std::move(executor)),
      kv_files_(std::move(kv_files)),
      model_(executor_->info()),
      tokenizer_(std::move(tokenizer)),
      clock_(std::move(clock)),
      start_us_(clock_->now_us()),
      limits_(limits_of(options_, model_, tokenizer_ != nullptr)),
      structured_outputs_(tokenizer_, model_.vocab_size, options_.structured_outputs),
      metrics_(constants_of(options_, executor_->kv_spec(), sizing)),
      kv_(executor_->kv_spec(), sizing.plan.num_blocks, options_.kv),
      handovers_(kv_, kv_files_.get(), options_.kv_handover),
      masks_(scheduler_, model_.vocab_size),
      drafts_(options_.drafter, masks_, model_.vocab_size),
      scheduler_(options_.scheduler, kv_, drafts_.or_null()),
      log_(options_.log_interval_us, options_.log_steps),
      step_costs_(options_.cost_model, options_.step_observers) {}

Engine::~Engine() = default;

Status Engine::validate(const GenerationRequest& request) const {
  return check_request(request, limits_);
}

EngineStats Engine::stats(int64_t num_submitted) const {
  return metrics_.snapshot(clock_->now_us() - start_us_, num_submitted);
}

ExecutorInfo Engine::model_info() const {
  ExecutorInfo info = model_;
  info.max_model_len = options_.scheduler.max_model_len;
  return info;
}

void Engine::set_cost_model(std::shared_ptr<const CostModel> model) {
  scheduler_.set_step_times(step_time_table(*model));
  step_costs_.set_model(std::move(model));
}

void Engine::abort(GroupId id, const Status& why) {
  const auto it = groups_.find(id);
  if (it == groups_.end()) return;
  end_group(*it->second, FinishReason::kAbort, why);
  flush();
}

void Engine::abort_all(const Status& why) {
  for (auto& [id, group] : groups_) end_group(*group, FinishReason::kAbort, why);
  flush();
}

int64_t Engine::abort_external(std::span<const std::string> external_ids) {
  int64_t num_aborted = 0;
  for (auto& [id, group] : groups_) {
    const auto found = std::find(external_ids.begin(), external_ids.end(), group->external_id);
    if (found == external_ids.end()) continue;
    end_group(*group, FinishReason::kAbort, {});
    ++num_aborted;
  }
  flush();
  return num_aborted;
}

void Engine::fail_all(const Status& why) {
  for (auto& [id, group] : groups_) end_group(*group, FinishReason::kError, why);
  flush();
}

bool Engine::step() {
  if (options_.scheduler.async_scheduling || options_.scheduler.pipeline_depth > 1)
    return overlapped_step();
  const int64_t begin = clock_->now_us();
  if (log_.due(begin)) log_.throughput(stats(), begin);
  expire(begin);
  const StepPlan& plan = make_plan(begin);
  if (plan.empty()) {
    const bool has_copied = make_host_copies(plan);
    flush();
    return has_copied;
  }
  note_scheduled(plan, begin);
  const int64_t scheduled = clock_->now_us();
  Result<StepResult> result = answer(plan, [&] { return executor_->execute(plan); });
  const int64_t executed = clock_->now_us();
  finish_step(
      plan, std::move(result),
      {.begin_us = begin, .schedule_us = scheduled - begin, .execute_us = executed - scheduled},
      executed);
  return true;
}

bool Engine::make_host_copies(const StepPlan& plan) {
  if (plan.host_copies.empty()) return false;
  settle();
  const Result<StepResult> made = answer(plan, [&] { return executor_->execute(plan); });
  if (!made.ok()) log_warn("KV of finished requests: {}", made.status().message());
  kv_.on_step_done(plan.step_id);
  return true;
}

const StepPlan& Engine::make_plan(int64_t now_us) {
  masks_.release_ready();
  for (KvHandovers::Answer& answer : handovers_.poll(now_us))
    push(*answer.choice, std::move(answer.delta));
  StepPlan& plan = scheduler_.schedule(now_us);
  for (ChoiceMasks::Failure& failure : masks_.complete(plan)) {
    end_choice(*failure.choice, FinishReason::kError, std::move(failure.status));
  }
  return plan;
}

void Engine::finish_step(const StepPlan& plan, Result<StepResult> result, StepRecord step,
                         int64_t executed_us) {
  kv_.on_step_done(plan.step_id);
  if (result.ok()) {
    for (const RequestUpdate& update : scheduler_.update(*result, executed_us)) {
      apply(update, executed_us);
    }
  } else {
    fail_step(plan, result.status());
    if (result.status().code() == StatusCode::kUnavailable) {
      lost_ = result.status();
      fail_all(lost_);
    }
  }
  drain_kv();
  const int64_t updated_us = clock_->now_us();
  step.update_us = std::exchange(flush_us_, 0) + updated_us - executed_us;
  step.failed = !result.ok();
  record(plan, result.ok() ? &*result : nullptr, step);
  if (const auto counts = executor_->graph_counts()) metrics_.set_graphs(*counts);
  flush();  // last: who holds the tokens of a step finds it in the metrics
  last_step_end_us_ = clock_->now_us();
  flush_us_ = last_step_end_us_ - updated_us;
  if (result.ok()) executor_->recycle(std::move(*result));
}

Choice* Engine::find(RequestId id) {
  const auto it = choices_.find(id);
  return it == choices_.end() ? nullptr : it->second;
}

// Errors and exceptions of an executor, and results that do not answer the plan, fail the step and
// nothing more (L6).
Result<StepResult> Engine::answer(const StepPlan& plan,
                                  const std::function<Result<StepResult>()>& call) {
  try {
    Result<StepResult> result = call();
    if (result.ok()) QUIRE_RETURN_IF_ERROR(check_step_result(plan, *result, model_.vocab_size));
    return result;
  } catch (const std::exception& e) {
    return internal_error("executor: {}", e.what());
  }
}

void Engine::note_scheduled(const StepPlan& plan, int64_t now_us) {
  for (const NewRequest& added : plan.new_requests) {
    Choice* choice = find(added.id);
    if (choice == nullptr) continue;
    if (choice->scheduled) {  // it resumes, or is a beam that moves
      choice->num_preemptions += choice->kind != RequestKind::kBeam;
      continue;
    }
    choice->scheduled = true;
    choice->times.first_scheduled_us = now_us;
    const Request* const request = scheduler_.find(added.id);
    if (const Status taken = handovers_.check_taken(*choice, request); !taken.ok())
      end_group(*choice->group, FinishReason::kError, taken);
  }
}

void Engine::apply(const RequestUpdate& update, int64_t now_us) {
  Choice* choice = find(update.id);
  if (choice == nullptr || choice->finished) return;
  if (choice->kind == RequestKind::kBeam) return apply_to_beam(*choice, update, now_us);
  if (choice->index == 0 && update.result != nullptr) {
    collect_prompt_logprobs(*choice->group, *update.result);
  }
  if (update.num_drafts > 0) note_drafts(*choice, update);
  if (!update.status.ok()) {
    if (update.status.code() == StatusCode::kInternal) metrics_.on_corrupted();
    end_choice(*choice, reason_of(*update.finished), update.status);
  } else if (!update.new_token_ids.empty() || update.finished) {
    take_tokens(*choice, update, now_us);
  }
}

void Engine::take_tokens(Choice& choice, const RequestUpdate& update, int64_t now_us) {
  OutputDelta delta;
  const bool stopped = update.finished == RequestStatus::kFinishedStopped;
  const std::span<const TokenLogprobs> logprobs =
      update.result ? std::span<const TokenLogprobs>(update.result->logprobs)
                    : std::span<const TokenLogprobs>();
  std::optional<size_t> stop =
      append_tokens(choice, update.new_token_ids, logprobs, stopped, delta);
  note_tokens(choice, static_cast<int32_t>(delta.token_ids.size()), now_us);
  if (!stop && !update.finished) {
    Status accepted = masks_.accept(choice, update.new_token_ids);
    if (accepted.ok()) return push(choice, std::move(delta));
    return end_choice(choice, FinishReason::kError, std::move(accepted), std::move(delta));
  }
  if (!stop && choice.text) stop = choice.text->finish(delta.text);
  if (stop) {
    delta.stop_reason = choice.params->stop[*stop];
  } else if (update.stop_token_id) {
    delta.stop_reason = *update.stop_token_id;
  }
  if (update.result != nullptr) delta.pooled = update.result->pooled;
  const FinishReason reason = stop ? FinishReason::kStop : reason_of(*update.finished);
  end_choice(choice, reason, update.status, std::move(delta));
}

void Engine::note_tokens(Choice& choice, int32_t num_tokens, int64_t now_us) {
  ChoiceTimes& times = choice.times;
  std::optional<int64_t> gap_us;
  if (!choice.prompt_done) {
    choice.prompt_done = true;
    times.first_token_us = now_us;
    if (const Request* request = scheduler_.find(choice.request_id)) {
      choice.num_cached_tokens = std::min(request->num_cached_tokens, request->num_prompt_tokens);
    }
    metrics_.on_first_token(now_us - times.arrival_us, choice.group->num_prompt_tokens,
                            choice.num_cached_tokens);
  } else {
    gap_us = now_us - times.last_token_us;
  }
  times.last_token_us = now_us;
  metrics_.on_tokens(num_tokens, gap_us);
}

void Engine::note_drafts(Choice& choice, const RequestUpdate& update) {
  metrics_.on_drafts(update.num_drafts, update.num_accepted_drafts);
  DraftCounts counts{
      .num_steps = 1, .num_drafts = update.num_drafts, .num_accepted = update.num_accepted_drafts};
  if (update.drafts_from_prediction) {
    counts.num_prediction_drafts = counts.num_drafts;
    counts.num_prediction_accepted = counts.num_accepted;
  }
  choice.drafts.add(counts);
}

void Engine::fail_step(const StepPlan& plan, const Status& status) {
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    Choice* choice = find(scheduled.id);
    if (choice == nullptr || choice->finished) continue;
    const Status why = status.with_context("step failed");
    if (choice->kind == RequestKind::kBeam) {
      end_group(*choice->group, FinishReason::kError, why);
    } else {
      end_choice(*choice, FinishReason::kError, why);
    }
  }
}

void Engine::expire(int64_t now_us) {
  for (const RequestId id : scheduler_.expire(now_us)) {
    Choice* choice = find(id);
    if (choice == nullptr || choice->finished) continue;
    metrics_.on_deadline();
    const Status why = deadline_exceeded("request: not finished after {} ms",
                                         (now_us - choice->times.arrival_us) / 1000);
    if (choice->kind == RequestKind::kBeam) {
      end_group(*choice->group, FinishReason::kError, why);
    } else {
      end_choice(*choice, FinishReason::kError, why);
    }
  }
}

// False: some delta found no room.
bool Engine::push_to_channel(const Choice& choice, OutputDelta delta) {
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

void Engine::push(Choice& choice, OutputDelta delta) {
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
  metrics_.on_overflow();
  const Status why = resource_exhausted(
      "stream: the reader left too much unread: more than {} bytes, or some while all streams had "
      "{} bytes",
      options_.stream.max_unread_bytes, options_.stream.max_total_unread_bytes);
  if (choice.finished) {  // it was the last delta that found no room
    OutputDelta last;
    last.choice_index = choice.index;
    last.finish_reason = FinishReason::kAbort;
    last.status = why;
    push_to_channel(choice, std::move(last));
  }
  end_group(group, FinishReason::kAbort, why);
}

// Everything a choice holds is free when this returns; flush() forgets it.
void Engine::end_choice(Choice& choice, FinishReason reason, Status status, OutputDelta delta) {
  scheduler_.finish(choice.request_id, status_of(reason));  // no effect when it ended by itself
  choices_.erase(choice.request_id);
  masks_.remove(choice);
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
  const Request* const request = scheduler_.find(choice.request_id);
  if (request != nullptr && handovers_.waits_for(*choice.group, reason)) {
    handovers_.begin({.choice = &choice, .delta = std::move(delta)}, *request, clock_->now_us());
  } else {
    push(choice, std::move(delta));
  }
}

void Engine::note_end(Choice& choice, const Choice& computed, FinishReason reason) {
  Group& group = *choice.group;
  choice.finished = true;
  --group.num_unfinished;
  metrics_.on_finished(reason, {.times = computed.times,
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

void Engine::end_group(Group& group, FinishReason reason, const Status& status) {
  for (Choice& choice : group.choices) {
    if (choice.finished) continue;
    OutputDelta delta;
    if (choice.text) choice.text->finish(delta.text);
    end_choice(choice, reason, status, std::move(delta));
  }
  if (auto answer = handovers_.take_back(group)) {
    answer->delta.finish_reason = reason;
    answer->delta.status = status;
    push(*answer->choice, std::move(answer->delta));
  }
}

// Tells readers of their news, and forgets requests that have ended. The metrics know it first.
void Engine::flush() {
  for (const Group* group : news_) {
    if (!is_over(*group) || !group->any_succeeded) continue;
    metrics_.on_group_finished(static_cast<int32_t>(group->choices.size()),
                               group->max_output_tokens);
  }
  set_gauges();
  for (Group* group : news_) {
    group->has_news = false;
    group->channel->notify();
    if (is_over(*group)) groups_.erase(group->id);
  }
  news_.clear();
}

void Engine::set_gauges() {
  metrics_.set_gauges(scheduler_.stats(), kv_.stats(), kv_.stats(KvPool::kState));
  metrics_.set_adapters(scheduler_.adapter_uses());
  if (kv_.files() == nullptr) return;
  KvFileStats files = kv_.files()->stats();
  handovers_.fill(files);
  metrics_.set_kv_files(files);
}

void Engine::drain_kv() {
  kv_.drain_residency(residency_);
  if (!residency_.empty()) metrics_.on_residency(residency_);
  if (!options_.kv.enable_events) return;
  kv_.drain_events(kv_events_);
  if (!kv_events_.empty() && options_.on_kv_events) options_.on_kv_events(kv_events_);
}

void Engine::record(const StepPlan& plan, const StepResult* result, StepRecord step) {
  step.step_id = plan.step_id;
  step.num_waiting = scheduler_.stats().num_waiting;
  step_costs_.fill(plan, result, step);
  const BlockCounts in_use = kv_.num_usable_blocks() - kv_.num_free_blocks();
  step.kv_blocks_in_use = static_cast<int32_t>(in_use[KvPool::kAttention]);
  step.state_blocks_in_use = static_cast<int32_t>(in_use[KvPool::kState]);
  metrics_.on_step(step);
  log_.step(step);
  if (steps_.size() < kStepRecords) {
    steps_.push_back(step);
  } else {
    steps_[next_step_] = step;
    next_step_ = (next_step_ + 1) % kStepRecords;
  }
}

}  // namespace quire
