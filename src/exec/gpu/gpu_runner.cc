#include "exec/gpu/gpu_runner.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "exec/dummy_step.h"
#include "exec/kv/block_copies.h"

namespace quire {

GpuRunner::~GpuRunner() {
  (void)device_->synchronize();  // queued work names memory that goes now
}

ExecutorInfo GpuRunner::info() const {
  return {.vocab_size = static_cast<int32_t>(plan_.spec.vocab_size),
          .max_model_len = static_cast<int32_t>(plan_.limits.max_seq_len)};
}

Status GpuRunner::initialize(const KvPlan& plan) {
  QUIRE_RETURN_IF_ERROR(kv_->initialize(plan));
  decoder_->bind_cache(kv_->layer_caches());
  return {};
}

// Libraries choose their algorithms and kernels are loaded, which capturing must not meet.
Status GpuRunner::warm_up() {
  return execute_dummy(*this, plan_.limits, {.num_blocks = kv_->num_blocks()});
}

bool GpuRunner::work_while_idle() {
  if (num_under_way() > 0) return false;
  const std::optional<GraphBucket> bucket = graphs_->next_uncaptured();
  const int64_t size = bucket ? bucket->size : next_eager_size();
  InputBatch& batch = *steps_[0].batch;
  if (size == 0 || !batch.build(StepPlan{}, *requests_).ok()) return false;
  const bool is_whole = bucket && bucket->kind == GraphKind::kWhole;
  ForwardInputs inputs = inputs_->build(0, StepPlan{}, batch, is_whole ? bucket->size : 1, size);
  inputs.max_query_len = 1;
  if (bucket) {
    graphs_->prepare(*bucket, inputs);
    return true;
  }
  num_idle_tokens_ = size;
  decoder_->forward(inputs);
  return device_->synchronize().ok();
}

// Larger steps than any graph's run products whose algorithms are chosen by measuring, which the
// first of them would wait for. Each number of rows that has algorithms of its own is one size.
int64_t GpuRunner::next_eager_size() const {
  const int64_t max_tokens = plan_.limits.max_tokens;
  const bool measures = !gpu_options_.deterministic;
  if (!measures || num_idle_tokens_ >= max_tokens) return 0;
  const int64_t least = gpu_options_.graphs ? 2 * GraphDispatcher::kMaxPieceTokens : 16;
  return std::min(max_tokens, std::max(least, 2 * num_idle_tokens_));
}

void GpuRunner::run_forward(const StepPlan& plan, const Step& step) {
  const InputBatch& batch = *step.batch;
  const StepSize size{.num_reqs = batch.num_reqs(),
                      .num_tokens = batch.num_tokens(),
                      .max_query_len = batch.max_query_len()};
  const std::optional<GraphBucket> bucket = graphs_->bucket_of(size);
  const bool is_whole = bucket && bucket->kind == GraphKind::kWhole;
  graphs_->forward(size, bucket,
                   inputs_->build(step.parity, plan, batch, is_whole ? bucket->size : size.num_reqs,
                                  bucket ? bucket->size : size.num_tokens));
}

std::optional<GraphCounts> GpuRunner::graph_counts() const {
  const GraphStats& stats = graphs_->stats();
  return GraphCounts{.num_graph_steps = stats.num_graph_steps(),
                     .num_eager_steps = stats.num_eager_steps(),
                     .num_padding_tokens = stats.padding_tokens,
                     .num_graphs = graphs_->num_graphs()};
}

Status GpuRunner::compute_logits(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), rows_);
  device_->copy_to_device(rows_on_device_, rows_, count * 4);
  decoder_->head().logits({rows_on_device_, tokens.size()}, logits_on_device_);
  device_->copy_to_host(logits_on_host_, logits_on_device_, count * plan_.spec.vocab_size * 4);
  return device_->synchronize();
}

// Whether something about the step can only be told from tokens that a step under way samples.
bool GpuRunner::needs_values(const StepPlan& plan) {
  return std::any_of(
      plan.scheduled.begin(), plan.scheduled.end(), [this](const ScheduledRequest& scheduled) {
        const RequestState* state = requests_->find(scheduled.id);
        return state != nullptr && state->num_open_tokens > 0 && !state->params->bad_words.empty();
      });
}

Status GpuRunner::sample(const StepPlan& plan, Step& step) {
  const bool takes_part = gpu_options_.sample_on_device && !options_.on_logits;
  const bool has_rows = !step.batch->logits_rows().empty();
  step.on_device = !has_rows || (takes_part && sampling_->takes(*step.batch));
  if (!step.on_device || !has_rows) return {};
  QUIRE_RETURN_IF_ERROR(sampling_->run(step.parity, plan, *step.batch, *decoder_, *inputs_));
  for (const LogitsRow& row : step.batch->logits_rows()) {
    if (row.samples) ++step.batch->request(static_cast<size_t>(row.request_index)).num_open_tokens;
  }
  return {};
}

Status GpuRunner::apply(const StepPlan& plan) {
  const int64_t max_blocks = InputBatch::max_blocks(plan_.limits, plan_.kv.spec.block_size);
  const std::vector<int32_t> group_blocks(plan_.kv.spec.groups.size(), kv_->num_blocks());
  const Status in_table = requests_->apply(plan, group_blocks, max_blocks);
  const Status in_inputs = inputs_->apply(plan);
  sampling_->apply(plan);
  QUIRE_RETURN_IF_ERROR(in_table);
  return in_inputs;
}

Status GpuRunner::submit(const StepPlan& plan) {
  const SteadyClock clock;
  if (kv_->num_blocks() == 0) return internal_error("a step before initialize()");
  if (num_under_way() == kGpuStepsInFlight) {
    return internal_error("submit: {} steps are under way", num_under_way());
  }
  if (num_under_way() > 0) {
    // The next forward pass overwrites the hidden states that the host's sampler still needs.
    Step& before = step_at(num_submitted_ - 1);
    if (!before.on_device || needs_values(plan)) finish(before);
  }
  Step& step = step_at(num_submitted_);
  step.start_us = clock.now_us();
  step.is_done = false;
  step.status = {};
  step.result = {.step_id = plan.step_id};
  std::vector<RequestStepResult>& spare =
      spare_results_[static_cast<size_t>(num_submitted_ % kGpuStepsInFlight)];
  step.result.requests = std::exchange(spare, {});
  step.parity = static_cast<size_t>(num_submitted_ % kGpuStepsInFlight);
  Status queued = queue(plan, step);
  if (!queued.ok()) {
    // The step's number is given to the next one, whose staging buffers are still being read.
    (void)device_->synchronize();
    return queued;
  }
  ++num_submitted_;
  return {};
}

Status GpuRunner::queue(const StepPlan& plan, Step& step) {
  const SteadyClock clock;
  const Status applied = apply(plan);
  QUIRE_RETURN_IF_ERROR(kv_->copy_to_and_from_host(plan.host_copies));
  QUIRE_RETURN_IF_ERROR(applied);
  QUIRE_RETURN_IF_ERROR(check_block_copies(plan, {.num_blocks = kv_->num_blocks()}));
  QUIRE_RETURN_IF_ERROR(step.batch->build(plan, *requests_));
  QUIRE_RETURN_IF_ERROR(kv_->copy_blocks(step.parity, plan.block_copies));
  step.batch->start_results(plan, step.result.requests);
  const int64_t built_us = clock.now_us();
  run_forward(plan, step);
  QUIRE_RETURN_IF_ERROR(sample(plan, step));
  step.event->record();
  step.timings = {};
  step.timings.forward_us = clock.now_us() - built_us;
  return {};
}

void GpuRunner::finish(Step& step) {
  if (step.is_done) return;
  step.is_done = true;
  if (!step.on_device) {
    ++num_host_sampled_steps_;
    step.status = logits_->run(*step.batch, step.result.requests, options_.on_logits, step.timings);
    return;
  }
  step.status = step.event->wait();
  if (step.status.ok() && !step.batch->logits_rows().empty()) {
    sampling_->store(step.parity, *step.batch, step.result.requests);
  }
}

Result<StepResult> GpuRunner::collect() {
  if (num_under_way() == 0) return internal_error("collect: no step is under way");
  const SteadyClock clock;
  Step& step = step_at(num_collected_++);
  finish(step);
  QUIRE_RETURN_IF_ERROR(step.status);
  step.result.execute_us = clock.now_us() - step.start_us;
  step.result.timings = step.timings;
  return std::move(step.result);
}

// Results of two steps may be with the caller before the first comes back.
void GpuRunner::recycle(StepResult&& result) {
  clear_results(result.requests);
  for (std::vector<RequestStepResult>& spare : spare_results_) {
    if (spare.capacity() > 0) continue;
    spare = std::move(result.requests);
    return;
  }
}

Result<StepResult> GpuRunner::execute(const StepPlan& plan) {
  if (num_under_way() > 0) return internal_error("execute: a step is under way");
  if (plan.empty()) {
    QUIRE_RETURN_IF_ERROR(apply(plan));
    if (!plan.host_copies.empty()) {
      QUIRE_RETURN_IF_ERROR(kv_->copy_to_and_from_host(plan.host_copies));
      QUIRE_RETURN_IF_ERROR(device_->synchronize());
    }
    return StepResult{.step_id = plan.step_id};
  }
  QUIRE_RETURN_IF_ERROR(submit(plan));
  return collect();
}

}  // namespace quire
