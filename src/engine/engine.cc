#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "engine/observe/kv_grid.h"
#include "engine/observe/row_time_probe.h"
#include "engine/requests/text_source.h"

namespace quire {
namespace {

// More than a step drafts.
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

void log_row_times(const RowTimes& times) {
  if (!times.known()) return;
  std::string list;
  for (const RowTimes::Point& point : times.points()) {
    list += fmt::format("{}{} {:.2f}", list.empty() ? "" : ", ", point.num_rows, point.us * 1e-3);
  }
  log_info("drafts are weighed by steps of rows that take ms: {}", list);
}

// Returns the tokens of which cached prefixes from files are a multiple.
int32_t hit_tokens(const KvSpec& spec) {
  return spec.uses(KvPool::kState) ? spec.state.block_size : spec.block_size;
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
    add_host_blocks(options.kv_offload_bytes, spec, sizing.plan);
  options.kv.num_host_blocks = sizing.plan.num_host_blocks;
  options.kv.num_host_state_blocks = sizing.plan.num_host_state_blocks;
  options.kv.num_state_blocks = sizing.plan.num_state_blocks;
  options.scheduler.max_model_len = sizing.max_model_len;
  if (executor->info().pooling.is_bidirectional) {
    options.scheduler.enable_chunked_prefill = false;
    options.kv.enable_prefix_caching = false;
  }
  options.scheduler.encoder_cache_tokens = executor->info().media.max_cached_embeddings;
  // Recordings take long to encode, so a step encodes one at most, and other requests go on
  // decoding.
  if (const MediaInfo media = executor->info().media; media.is_source) {
    const int32_t texts = media.text_source.any() ? options.scheduler.max_num_batched_tokens : 0;
    options.scheduler.encoder_step_tokens = std::max(media.max_item_embeddings, texts);
  }
  options.scheduler.media_is_bidirectional = executor->info().media.is_bidirectional;
  options.kv.max_sequence_tokens = sizing.max_model_len;
  options.kv.max_step_tokens = options.scheduler.max_uncommitted_tokens();
  QUIRE_RETURN_IF_ERROR(options.scheduler.validate());
  QUIRE_RETURN_IF_ERROR(executor->initialize(sizing.plan));
  QUIRE_RETURN_IF_ERROR(executor->warm_up());
  while (options.prepare_at_start && executor->work_while_idle()) {
  }
  std::unique_ptr<KvFiles> kv_files;
  if (options.open_kv_files) {
    QUIRE_ASSIGN_OR_RETURN(kv_files, options.open_kv_files(executor->host_memory()));
    options.kv.files.files = kv_files.get();
  }
  const bool drafts = options.drafter != nullptr && options.scheduler.num_speculative_tokens > 0;
  if (drafts) options.structured_outputs.max_forced_bytes = kMaxForcedBytes;
  if (drafts && options.weigh_drafts && !options.scheduler.draft_planner.row_times.known()) {
    options.scheduler.draft_planner.row_times =
        measure_row_times(*executor, sizing.plan, options.scheduler.max_num_batched_tokens, *clock);
    log_row_times(options.scheduler.draft_planner.row_times);
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
      clock_(std::move(clock)),
      start_us_(clock_->now_us()),
      limits_(limits_of(options_, model_, tokenizer != nullptr)),
      structured_outputs_(tokenizer, model_.vocab_size, options_.structured_outputs),
      metrics_(constants_of(options_, executor_->kv_spec(), sizing)),
      kv_(executor_->kv_spec(), sizing.plan.num_blocks, options_.kv),
      handovers_(kv_, kv_files_.get(), options_.kv_handover),
      masks_(scheduler_, model_.vocab_size),
      drafts_(options_.drafter, masks_, model_.vocab_size),
      scheduler_(options_.scheduler, kv_, drafts_.or_null()),
      gauges_(scheduler_, kv_, handovers_, metrics_),
      maker_({.max_model_len = options_.scheduler.max_model_len,
              .kv_hit_tokens = hit_tokens(kv_.spec()),
              .pooling = model_.pooling,
              .has_text_source = model_.media.text_source.any(),
              .default_timeout_us = options_.default_timeout_us},
             std::move(tokenizer)),
      answers_({.groups = groups_,
                .scheduler = scheduler_,
                .masks = masks_,
                .handovers = handovers_,
                .gauges = gauges_,
                .metrics = metrics_,
                .clock = *clock_},
               options_.stream),
      progress_({.groups = groups_,
                 .scheduler = scheduler_,
                 .masks = masks_,
                 .handovers = handovers_,
                 .answers = answers_,
                 .metrics = metrics_}),
      kv_news_(kv_, metrics_, options_.kv.enable_events, options_.on_kv_events),
      journal_({.scheduler = scheduler_, .kv = kv_, .metrics = metrics_},
               EngineLog(options_.log_interval_us, options_.log_steps),
               StepCosts(options_.cost_model, options_.step_observers), start_us_),
      loop_({.executor = *executor_,
             .scheduler = scheduler_,
             .kv = kv_,
             .masks = masks_,
             .answers = answers_,
             .progress = progress_,
             .journal = journal_,
             .kv_news = kv_news_,
             .metrics = metrics_,
             .clock = *clock_},
            model_.vocab_size,
            options_.scheduler.async_scheduling || options_.scheduler.pipeline_depth > 1) {}

Engine::~Engine() = default;

Status Engine::prepare(GenerationRequest& request) {
  if (model_.media.text_source.any())
    QUIRE_RETURN_IF_ERROR(make_source_of_prompt(model_.media.text_source, request));
  QUIRE_RETURN_IF_ERROR(check_request(request, limits_));
  QUIRE_RETURN_IF_ERROR(structured_outputs_.constrain(request));
  return handovers_.prepare(request);
}

EngineStats Engine::stats(int64_t num_submitted) const {
  EngineStats stats = metrics_.snapshot(clock_->now_us() - start_us_, num_submitted);
  const CompiledGrammars::Counts grammars = structured_outputs_.counts();
  stats.grammar_hits = grammars.num_hits;
  stats.grammars_compiled = grammars.num_compiled;
  stats.grammars_failed = grammars.num_failed;
  stats.num_grammars = static_cast<int64_t>(grammars.num_entries);
  return stats;
}

ExecutorInfo Engine::model_info() const {
  ExecutorInfo info = model_;
  info.max_model_len = options_.scheduler.max_model_len;
  return info;
}

void Engine::set_cost_model(std::shared_ptr<const CostModel> model) {
  scheduler_.set_step_times(step_time_table(*model));
  journal_.set_cost_model(std::move(model));
}

Status Engine::add(Submission submission) {
  const int64_t now = clock_->now_us();
  const GenerationRequest& request = submission.request;
  const auto num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  QUIRE_RETURN_IF_ERROR(
      scheduler_.check_queue_room(request.num_choices, request.num_choices * num_prompt));
  std::unique_ptr<Group> group = maker_.make_group(submission, now);
  const std::span<Choice> computed =
      std::span(group->choices).first(group->copies_first ? 1 : group->choices.size());
  for (Choice& choice : computed) {
    Status status = scheduler_.add(maker_.make_request(choice, submission.request, now), now);
    if (status.ok()) continue;
    for (const Choice& added : group->choices) {
      if (added.index < choice.index) {
        scheduler_.finish(added.request_id, RequestStatus::kFinishedAborted);
      }
    }
    return status;
  }
  for (Choice& choice : computed) {
    groups_.add_computed(choice);
    masks_.add(choice);
  }
  groups_.add(std::move(group));
  gauges_.publish();
  return {};
}

void Engine::abort(GroupId id, const Status& why) {
  Group* const group = groups_.find(id);
  if (group == nullptr) return;
  answers_.end_group(*group, FinishReason::kAbort, why);
  answers_.flush();
}

int64_t Engine::abort_external(std::span<const std::string> external_ids) {
  int64_t num_aborted = 0;
  for (auto& [id, group] : groups_.all()) {
    const auto found = std::find(external_ids.begin(), external_ids.end(), group->external_id);
    if (found == external_ids.end()) continue;
    answers_.end_group(*group, FinishReason::kAbort, {});
    ++num_aborted;
  }
  answers_.flush();
  return num_aborted;
}

int64_t Engine::end_all(FinishReason reason, const Status& why) {
  return answers_.end_all(reason, why);
}

QueueState Engine::queue_state() const {
  const SchedulerStats stats = scheduler_.stats();
  return {.num_requests = stats.num_waiting - stats.num_preempted_now,
          .num_tokens = stats.num_queued_tokens,
          .retry_after_s = scheduler_.retry_after_s()};
}

KvGridSnapshot Engine::kv_grid() const {
  return make_kv_grid(kv_, [this](RequestId id) -> const std::string* {
    const Choice* const choice = groups_.find(id);
    return choice == nullptr ? nullptr : &choice->group->external_id;
  });
}

PrefixProbe Engine::probe_prefix(std::span<const TokenId> token_ids, const CacheKeys& keys) const {
  const KvProbe probe = kv_.probe(token_ids, keys);
  return {.num_cached_tokens = probe.num_tokens, .num_cached_blocks = probe.num_blocks};
}

Status Engine::reset_prefix_cache() {
  const Status status = kv_.reset_prefix_cache();
  kv_news_.pass_on();
  gauges_.publish();
  return status;
}

}  // namespace quire
