#include "exec/gpu/gpu_runner.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "exec/dummy_step.h"
#include "exec/kv/block_copies.h"
#include "models/drafting/draft_head.h"

namespace quire {

namespace {

GpuLogits::Shape logits_shape(const GpuModel& model) {
  const ModelPlan& plan = model.plan();
  const DraftHead* const head = model.options().draft_head.get();
  GpuLogits::Shape shape{.max_rows = plan.limits.max_logit_rows,
                         .vocab_size = plan.spec.vocab_size};
  if (head != nullptr && plan.spec.head_size > 0) shape.token_map = head->token_map;
  return shape;
}

Result<GpuRunnerMemory> allocate_memory(GpuModel& model) {
  const ModelPlan& plan = model.plan();
  const MemoryPlan& sizes = plan.memory;
  const GpuLogits::Shape logits = logits_shape(model);
  Device& device = model.device();
  const int num_steps = model.gpu_options().steps_in_flight();
  GpuRunnerMemory memory;
  const bool has_own_logits = model.gpu_options().ranks == nullptr;
  QUIRE_ASSIGN_OR_RETURN(
      memory.workspace,
      device.allocate(sizes.activations + sizes.linear_workspace + sizes.attention_workspace +
                      (has_own_logits ? sizes.logits : 0)));
  QUIRE_ASSIGN_OR_RETURN(memory.batch, device.allocate(sizes.batch));
  QUIRE_ASSIGN_OR_RETURN(
      memory.pinned,
      device.allocate_pinned(GpuStepInputs::pinned_bytes(model.inputs_shape()) +
                             GpuSampling::pinned_bytes(model.sampling_shape()) +
                             logits.rows_bytes() + GpuKvCache::pinned_bytes(num_steps) +
                             GpuHiddenStates::pinned_bytes(model.options(), plan)));
  QUIRE_ASSIGN_OR_RETURN(memory.pinned_logits, device.allocate_pinned(logits.values_bytes()));
  return memory;
}

// Returns kUnavailable if finished work had to wait for a rank or stage that did not come.
Status group_status(const GpuModel& model) {
  const GpuRunnerOptions& options = model.gpu_options();
  if (options.ranks != nullptr) QUIRE_RETURN_IF_ERROR(options.ranks->status());
  return options.link == nullptr ? Status() : options.link->status();
}

// Returns the sum of the sequence lengths of a step's requests.
int64_t total_len(const StepPlan& plan) {
  int64_t total = 0;
  for (const ScheduledRequest& scheduled : plan.scheduled)
    total += scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
  return total;
}

// Returns false where a later stage has the head.
bool samples(const GpuModel& model) { return model.options().stage.is_last(); }

// Returns whether building the step needs tokens that a step under way has yet to sample.
bool needs_values(const StepPlan& plan, RequestTable& requests) {
  return std::any_of(
      plan.scheduled.begin(), plan.scheduled.end(), [&](const ScheduledRequest& scheduled) {
        const RequestState* state = requests.find(scheduled.id);
        return state != nullptr && state->num_open_tokens > 0 && !state->params->bad_words.empty();
      });
}

// Returns the number of tokens of the next step that runs without a graph while idle, after one of
// `last_size`; 0: no more such steps. Steps larger than any graph use products whose algorithms are
// chosen by measuring, and the first real step of a size would have to wait for that. There is one
// size for each number of rows that has algorithms of its own.
int64_t next_eager_size(const GpuRunnerOptions& options, int64_t max_tokens, int64_t last_size) {
  const bool measures = !options.deterministic;
  if (!measures || last_size >= max_tokens) return 0;
  const int64_t least =
      options.graphs != GraphMode::kNone ? 2 * GraphDispatcher::kMaxPieceTokens : 16;
  return std::min(max_tokens, std::max(least, 2 * last_size));
}

}  // namespace

Result<std::unique_ptr<GpuRunner>> GpuRunner::create(ModelRunnerOptions options,
                                                     const GpuRunnerOptions& gpu_options,
                                                     std::unique_ptr<Device> device) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuModel> model,
                         GpuModel::load(std::move(options), gpu_options, std::move(device)));
  QUIRE_ASSIGN_OR_RETURN(GpuRunnerMemory memory, allocate_memory(*model));
  GpuSteps::Events events(static_cast<size_t>(gpu_options.steps_in_flight()));
  for (std::unique_ptr<Event>& event : events) {
    QUIRE_ASSIGN_OR_RETURN(event, model->device().make_event());
  }
  const size_t num_staged = events.size();
  std::unique_ptr<GpuAdapters> adapters;
  if (model->options().max_adapters > 0) {
    QUIRE_ASSIGN_OR_RETURN(adapters, GpuAdapters::create({.options = model->options(),
                                                          .plan = model->plan(),
                                                          .weights = model->weights(),
                                                          .device = model->device(),
                                                          .num_staged = num_staged}));
  }
  std::unique_ptr<GpuRunner> runner(
      new GpuRunner(std::move(model), std::move(memory), std::move(events), std::move(adapters)));
  QUIRE_RETURN_IF_ERROR(runner->device_.synchronize());
  return runner;
}

GpuRunner::GpuRunner(std::unique_ptr<GpuModel> model, GpuRunnerMemory memory,
                     GpuSteps::Events events, std::unique_ptr<GpuAdapters> adapters)
    : model_(std::move(model)),
      plan_(model_->plan()),
      device_(model_->device()),
      memory_(std::move(memory)),
      link_(model_->gpu_options().link),
      adapters_(std::move(adapters)),
      steps_(plan_.limits, plan_.kv.spec, std::move(events)) {
  GpuRanks* const group = model_->gpu_options().ranks;
  if (group != nullptr) {
    ranks_.emplace(plan_.whole, model_->options().share, plan_.limits, *group, device_.stream());
  }
  decoder_ =
      std::make_unique<Decoder>(plan_.spec, model_->weights(), plan_.limits, device_.stream(),
                                memory_.workspace, ranks_ ? &*ranks_ : nullptr);
  graphs_ = std::make_unique<StepGraphs>(model_->dispatcher(), adapters_ != nullptr, device_,
                                         *decoder_, group);
  const GpuLogits::Shape logits = logits_shape(*model_);
  float* const logits_on_device =
      ranks_ ? ranks_->logits()
             : memory_.workspace.allocate<float>(logits.max_rows * logits.vocab_size);
  kv_ = std::make_unique<GpuKvCache>(plan_.kv, model_->gpu_options().steps_in_flight(), device_,
                                     memory_.batch, memory_.pinned);
  inputs_ = std::make_unique<GpuStepInputs>(model_->inputs_shape(), device_, memory_.batch,
                                            memory_.pinned);
  sampling_ = std::make_unique<GpuSampling>(model_->sampling_shape(), logits_on_device, device_,
                                            memory_.batch, memory_.pinned);
  host_logits_ = std::make_unique<GpuLogits>(
      logits, device_, *decoder_,
      GpuLogits::Memory{logits_on_device, memory_.batch, memory_.pinned, memory_.pinned_logits});
  logits_ = std::make_unique<LogitsStage>(
      [this](std::span<const int32_t> tokens) { return host_logits_->compute(tokens); }, nullptr,
      model_->team(), host_logits_->on_host(), logits.vocab_size, logits.max_rows);
  if (GpuHiddenStates::are_wanted(model_->options(), plan_)) {
    hidden_ = std::make_unique<GpuHiddenStates>(
        GpuHiddenStates::Parts{model_->options(), plan_, device_, *decoder_, model_->team(),
                               memory_.workspace, memory_.pinned});
  }
  requests_ = std::make_unique<RequestTable>(plan_.spec.vocab_size, plan_.limits.max_seq_len,
                                             static_cast<int32_t>(plan_.kv.spec.groups.size()));
}

GpuRunner::~GpuRunner() {
  (void)device_.synchronize();  // queued work uses memory that is freed below
}

ExecutorInfo GpuRunner::info() const {
  return {.vocab_size = static_cast<int32_t>(plan_.spec.vocab_size),
          .max_model_len = static_cast<int32_t>(plan_.limits.max_seq_len),
          .generates = plan_.spec.has_head,
          .pooling = hidden_ == nullptr ? PoolingInfo{} : hidden_->pooling()};
}

Status GpuRunner::initialize(const KvPlan& plan) {
  QUIRE_RETURN_IF_ERROR(kv_->initialize(plan));
  decoder_->bind_cache(kv_->layer_caches(), kv_->state_views());
  return {};
}

KvHostMemory GpuRunner::host_memory() {
  KvHostMemory memory;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    HostBlocks blocks = kv_->host_blocks(pool);
    if (blocks.data != nullptr) memory.at(pool).push_back(std::move(blocks));
  }
  return memory;
}

// Makes libraries choose their algorithms and loads the kernels, which must not happen during a
// capture.
Status GpuRunner::warm_up() { return execute_dummy(*this, plan_.limits, kv_->plan()); }

bool GpuRunner::work_while_idle() {
  if (steps_.num_under_way() > 0) return false;
  const std::optional<GraphBucket> bucket = graphs_->next_uncaptured();
  const int64_t size =
      bucket ? bucket->size
             : next_eager_size(model_->gpu_options(), plan_.limits.max_tokens, num_idle_tokens_);
  InputBatch& batch = steps_.idle_batch();
  if (size == 0 || !batch.build(StepPlan{}, *requests_).ok()) return false;
  const bool is_whole = bucket && bucket->kind == GraphKind::kWhole;
  ForwardInputs inputs = inputs_->build(0, StepPlan{}, batch, is_whole ? bucket->size : 1, size);
  inputs.max_query_len = 1;
  inputs.total_len = GraphDispatcher::kMaxTotalLen;
  if (bucket && bucket->has_adapters) inputs.lora_slots = adapters_->place(0, {}, size);
  if (hidden_ != nullptr) hidden_->before_none(inputs);
  if (bucket) {
    graphs_->prepare(*bucket, inputs);
    return true;
  }
  num_idle_tokens_ = size;
  decoder_->forward(inputs);
  return device_.synchronize().ok();
}

Result<std::shared_ptr<const Adapter>> GpuRunner::load_adapter(const std::string& name,
                                                               const std::string& path) const {
  if (adapters_ == nullptr)
    return unimplemented("adapters: expected --enable-lora, without which there are none");
  return adapters_->load(name, path);
}

const GraphCounts* GpuRunner::graph_counts() const {
  graphs_->count(graph_counts_);
  return &graph_counts_;
}

// Stages before the last one make the same decision but sample nothing: if the host samples, every
// stage waits for the step before it queues the next one.
Status GpuRunner::sample(const StepPlan& plan, GpuStep& step) {
  const bool takes_part = model_->gpu_options().sample_on_device && !model_->options().on_logits &&
                          // The host expands the logits of a reduced head.
                          plan_.spec.head_size == 0;
  const bool has_rows = !step.batch->logits_rows().empty();
  step.on_device = !has_rows || (takes_part && sampling_->takes(*step.batch));
  if (!step.on_device || !has_rows || !samples(*model_)) return {};
  QUIRE_RETURN_IF_ERROR(sampling_->run(step.turn, plan, *step.batch, *decoder_, *inputs_));
  for (const LogitsRow& row : step.batch->logits_rows()) {
    if (row.samples) ++step.batch->request(static_cast<size_t>(row.request_index)).num_open_tokens;
  }
  return {};
}

Status GpuRunner::apply(const StepPlan& plan) {
  const int64_t max_blocks = InputBatch::max_blocks(plan_.limits, plan_.kv.spec.block_size);
  const StepResult* const sampled = link_ == nullptr ? nullptr : link_->take_sampled();
  if (sampled != nullptr) requests_->follow(*sampled);
  const Status in_table = requests_->apply(plan, kv_->group_blocks(), max_blocks);
  const Status in_inputs = inputs_->apply(plan);
  sampling_->apply(plan);
  QUIRE_RETURN_IF_ERROR(in_table);
  return in_inputs;
}

Status GpuRunner::submit(const StepPlan& plan) {
  const SteadyClock clock;
  if (!kv_->is_initialized()) return internal_error("a step before initialize()");
  if (steps_.is_full()) {
    return internal_error("submit: {} steps are under way", steps_.num_under_way());
  }
  if (steps_.num_under_way() > 0) {
    // The next forward pass overwrites the hidden states, which the host's sampler still needs.
    GpuStep& before = steps_.newest();
    if (!before.on_device || needs_values(plan, *requests_)) finish(before);
  }
  GpuStep& step = steps_.start(plan.step_id, clock.now_us());
  Status queued = queue(plan, step);
  if (!queued.ok()) {
    // The next step gets the same number and staging buffers, which the device may still be
    // reading.
    Status idle = device_.synchronize();
    return idle.code() == StatusCode::kUnavailable ? idle : queued;
  }
  steps_.push();
  return {};
}

void GpuRunner::find_blocks_in_use() {
  kv_->forget_blocks_in_use();
  if (steps_.num_under_way() == 0 || steps_.newest().is_done) return;
  // A stage of a pipeline can have several steps under way.
  if (steps_.num_under_way() > 1) return kv_->note_all_blocks_in_use();
  const InputBatch& batch = *steps_.newest().batch;
  for (int32_t i = 0; i < batch.num_reqs(); ++i)
    kv_->note_blocks_in_use(batch.request(static_cast<size_t>(i)).block_tables);
}

Status GpuRunner::queue(const StepPlan& plan, GpuStep& step) {
  const SteadyClock clock;
  // Uses the block tables before this plan changes them.
  if (!plan.host_copies.empty()) find_blocks_in_use();
  const Status applied = apply(plan);
  QUIRE_RETURN_IF_ERROR(kv_->copy_to_and_from_host(plan.host_copies));
  QUIRE_RETURN_IF_ERROR(applied);
  QUIRE_RETURN_IF_ERROR(check_block_copies(plan, kv_->plan()));
  QUIRE_RETURN_IF_ERROR(step.batch->build(plan, *requests_));
  QUIRE_RETURN_IF_ERROR(kv_->copy_blocks(step.turn, plan.block_copies));
  step.batch->start_results(plan, step.result.requests);
  const int64_t built_us = clock.now_us();
  const std::span<const LoraRows> adapters = step.batch->inputs().adapters;
  const StepSize size{.num_reqs = step.batch->num_reqs(),
                      .num_tokens = step.batch->num_tokens(),
                      .max_query_len = step.batch->max_query_len(),
                      .total_len = total_len(plan),
                      .has_adapters = !adapters.empty()};
  const std::optional<GraphBucket> bucket = graphs_->bucket_of(size);
  const bool is_whole = bucket && bucket->kind == GraphKind::kWhole;
  const int64_t num_tokens = bucket ? bucket->size : size.num_tokens;
  ForwardInputs inputs = inputs_->build(step.turn, plan, *step.batch,
                                        is_whole ? bucket->size : size.num_reqs, num_tokens);
  // A graph that is captured now will run other steps, too.
  inputs.total_len = is_whole ? GraphDispatcher::kMaxTotalLen : size.total_len;
  if (size.has_adapters) inputs.lora_slots = adapters_->place(step.turn, adapters, num_tokens);
  if (hidden_ != nullptr) QUIRE_RETURN_IF_ERROR(hidden_->before(plan, *requests_, inputs));
  const int64_t hidden_bytes = size.num_tokens * plan_.spec.hidden_size * int64_t{sizeof(float)};
  graphs_->capture_in_turn(bucket, inputs);
  if (link_ != nullptr) link_->receive(decoder_->hidden(), hidden_bytes);
  graphs_->forward(size, bucket, inputs);
  if (link_ != nullptr) link_->send(decoder_->hidden(), hidden_bytes);
  QUIRE_RETURN_IF_ERROR(sample(plan, step));
  step.event->record();
  step.timings = {};
  step.timings.forward_us = clock.now_us() - built_us;
  return {};
}

void GpuRunner::finish(GpuStep& step) {
  if (step.is_done) return;
  step.is_done = true;
  if (!step.on_device && samples(*model_)) {
    ++num_host_sampled_steps_;
    step.status =
        logits_->run(*step.batch, step.result.requests, model_->options().on_logits, step.timings);
    if (step.status.ok()) step.status = group_status(*model_);
  } else {
    step.status = step.event->wait();
    if (step.status.ok()) step.status = group_status(*model_);
    if (step.status.ok() && samples(*model_) && !step.batch->logits_rows().empty())
      sampling_->store(step.turn, *step.batch, step.result.requests);
  }
  if (step.status.ok() && hidden_ != nullptr)
    step.status = hidden_->after(*step.batch, step.result.requests);
}

Result<StepResult> GpuRunner::collect() {
  if (steps_.num_under_way() == 0) return internal_error("collect: no step is under way");
  const SteadyClock clock;
  GpuStep& step = steps_.pop();
  finish(step);
  QUIRE_RETURN_IF_ERROR(step.status);
  step.result.execute_us = clock.now_us() - step.start_us;
  step.result.timings = step.timings;
  return std::move(step.result);
}

void GpuRunner::recycle(StepResult&& result) { steps_.recycle(std::move(result)); }

Result<StepResult> GpuRunner::execute(const StepPlan& plan) {
  if (steps_.num_under_way() > 0) return internal_error("execute: a step is under way");
  if (plan.empty()) {
    const Status applied = apply(plan);
    if (!plan.host_copies.empty()) {
      find_blocks_in_use();
      QUIRE_RETURN_IF_ERROR(kv_->copy_to_and_from_host(plan.host_copies));
      QUIRE_RETURN_IF_ERROR(device_.synchronize());
    }
    QUIRE_RETURN_IF_ERROR(applied);
    return StepResult{.step_id = plan.step_id};
  }
  QUIRE_RETURN_IF_ERROR(submit(plan));
  return collect();
}

}  // namespace quire
