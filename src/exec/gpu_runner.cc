#include "exec/gpu_runner.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "exec/dummy_step.h"
#include "exec/gpu_memory_plan.h"
#include "exec/gpu_weights.h"
#include "kernels/row_staging.h"

namespace quire {
namespace {

constexpr int64_t kCopiesAtOnce = 1024;

Status check_dtype(std::string_view flag, std::string_view name) {
  if (name == "auto" || name == "bfloat16") return {};
  return invalid_argument("{}: expected auto or bfloat16 on a GPU, got {}", flag, name);
}

GpuStepInputs::Shape inputs_shape(const ModelPlan& plan) {
  return {.limits = plan.limits,
          .block_size = plan.kv.spec.block_size,
          .num_groups = static_cast<int32_t>(plan.kv.spec.groups.size())};
}

GpuSampling::Shape sampling_shape(const ModelPlan& plan) {
  return {.max_rows = plan.limits.max_reqs,
          .max_logit_rows = plan.limits.max_logit_rows,
          .vocab_size = plan.spec.vocab_size};
}

Status check_shape(const ModelPlan& plan) {
  if (plan.spec.head_dim % 8 != 0 || plan.spec.head_dim > 256) {
    return {StatusCode::kUnimplemented,
            fmt::format("cuda: expected a head dim that is a multiple of 8 and at most 256, got {}",
                        plan.spec.head_dim)};
  }
  if (!std::has_single_bit(static_cast<uint32_t>(plan.kv.spec.block_size))) {
    return invalid_argument("block_size: expected a power of two on a GPU, got {}",
                            plan.kv.spec.block_size);
  }
  const int64_t num_entries = inputs_shape(plan).num_table_entries();
  if (num_entries > std::numeric_limits<int32_t>::max()) {
    return invalid_argument(
        "max-num-seqs x max-model-len: {} entries of block tables are more than a GPU's kernels "
        "index",
        num_entries);
  }
  return {};
}

int64_t copies_bytes() { return Arena::padded(2 * kCopiesAtOnce * 4); }

}  // namespace

GpuRunner::GpuRunner(ModelRunnerOptions options, const GpuRunnerOptions& gpu_options,
                     std::unique_ptr<Device> device)
    : options_(std::move(options)),
      gpu_options_(gpu_options),
      device_(std::move(device)),
      team_({.num_threads = options_.threads, .pin = options_.pin_threads}) {
  device_->stream().set_deterministic(gpu_options.deterministic);
  device_->stream().set_programmatic_launch(gpu_options.programmatic_launch);
  device_->stream().set_warpgroup_products(gpu_options.warpgroup_products &&
                                           device_->info().gpu.compute_capability == 90);
}

GpuRunner::~GpuRunner() {
  (void)device_->synchronize();  // queued work names memory that goes now
}

Result<std::unique_ptr<GpuRunner>> GpuRunner::create(ModelRunnerOptions options,
                                                     const GpuRunnerOptions& gpu_options,
                                                     std::unique_ptr<Device> device) {
  QUIRE_RETURN_IF_ERROR(check_dtype("dtype", options.dtype));
  QUIRE_RETURN_IF_ERROR(check_dtype("kv_cache_dtype", options.kv_cache_dtype));
  options.dtype = "bfloat16";
  options.kv_cache_dtype = "bfloat16";
  std::unique_ptr<GpuRunner> runner(
      new GpuRunner(std::move(options), gpu_options, std::move(device)));
  ModelLoading loading;
  QUIRE_RETURN_IF_ERROR(runner->prepare(loading));
  QUIRE_RETURN_IF_ERROR(runner->load(loading));
  return runner;
}

Status GpuRunner::prepare(ModelLoading& loading) {
  QUIRE_RETURN_IF_ERROR(prepare_model(options_, plan_, weights_, loading));
  QUIRE_RETURN_IF_ERROR(check_shape(plan_));
  QUIRE_RETURN_IF_ERROR(check_gpu_weights(weights_->slots()));
  plan_.limits.activation_type = DType::kBF16;
  plan_.limits.mlp_tokens = plan_.limits.max_tokens;
  if (gpu_options_.graphs) {
    dispatcher_ =
        GraphDispatcher(static_cast<int32_t>(plan_.limits.max_reqs), plan_.limits.max_tokens);
  }
  return plan_memory(loading);
}

Status GpuRunner::plan_memory(const ModelLoading& loading) {
  MemoryPlan& memory = plan_.memory;
  const GpuStream& stream = device_->stream();
  const DecoderMemory decoder = decoder_memory(plan_.spec, *weights_, plan_.limits, stream);
  const KvSpec& kv = plan_.kv.spec;
  memory.weights =
      gpu_weight_bytes(weights_->slots(), loading.checkpoint, loading.weight_bytes(*weights_));
  memory.matrices = weights_->matrix_bytes();
  plan_.matrix_compute = weights_->matrix_compute();
  memory.activations = decoder.activations;
  memory.linear_workspace = decoder.linear_workspace;
  memory.attention_workspace = decoder.attention_workspace;
  memory.logits = Arena::padded(plan_.limits.max_logit_rows * plan_.spec.vocab_size * 4);
  memory.graphs = StepGraphs::device_bytes(dispatcher_, plan_.spec.layers.size() + 1);
  memory.batch = GpuStepInputs::device_bytes(inputs_shape(plan_)) +
                 GpuSampling::device_bytes(sampling_shape(plan_)) +
                 Arena::padded(plan_.limits.max_logit_rows * 4) + copies_bytes();
  memory.block_bytes = kv.block_bytes;
  memory.kv_bytes_per_token = plan_.kv.bytes_per_token();
  const DeviceInfo info = device_->info();
  const auto useful =
      static_cast<int64_t>(static_cast<double>(plan_.limits.max_reqs) *
                           static_cast<double>(plan_.limits.max_seq_len + kv.block_size) *
                           memory.kv_bytes_per_token) +
      2 * kv.block_bytes;
  return plan_gpu_memory({.total_bytes = info.total_memory_bytes,
                          .free_bytes = info.free_memory_bytes,
                          .utilization = options_.memory_utilization,
                          .kv_cache_bytes = options_.kv_cache_memory_bytes,
                          .useful_kv_bytes = useful},
                         memory);
}

Status GpuRunner::load(const ModelLoading& loading) {
  QUIRE_ASSIGN_OR_RETURN(Arena host, Arena::create(loading.weight_bytes(*weights_)));
  RowStagingStream staging;
  QUIRE_RETURN_IF_ERROR(load_weights(staging, &team_, options_, loading, *weights_, host));
  QUIRE_ASSIGN_OR_RETURN(weight_memory_,
                         upload_weights(*device_, weights_->slots(), host, plan_.memory.weights));
  return allocate_workspace();
}

Status GpuRunner::allocate_workspace() {
  const MemoryPlan& memory = plan_.memory;
  QUIRE_ASSIGN_OR_RETURN(workspace_,
                         device_->allocate(memory.activations + memory.linear_workspace +
                                           memory.attention_workspace + memory.logits));
  decoder_ =
      std::make_unique<Decoder>(plan_.spec, *weights_, plan_.limits, device_->stream(), workspace_);
  graphs_ = std::make_unique<StepGraphs>(dispatcher_, *device_, *decoder_);
  const int64_t num_logits = plan_.limits.max_logit_rows * plan_.spec.vocab_size;
  logits_on_device_ = workspace_.allocate<float>(num_logits);

  QUIRE_ASSIGN_OR_RETURN(batch_memory_, device_->allocate(memory.batch));
  QUIRE_ASSIGN_OR_RETURN(pinned_,
                         device_->allocate_pinned(GpuStepInputs::pinned_bytes(inputs_shape(plan_)) +
                                                  GpuSampling::pinned_bytes(sampling_shape(plan_)) +
                                                  Arena::padded(plan_.limits.max_logit_rows * 4) +
                                                  kGpuStepsInFlight * copies_bytes()));
  inputs_ = std::make_unique<GpuStepInputs>(inputs_shape(plan_), *device_, batch_memory_, pinned_);
  sampling_ = std::make_unique<GpuSampling>(sampling_shape(plan_), logits_on_device_, *device_,
                                            batch_memory_, pinned_);
  rows_on_device_ = batch_memory_.allocate<int32_t>(plan_.limits.max_logit_rows);
  rows_ = pinned_.allocate<int32_t>(plan_.limits.max_logit_rows);
  copies_on_device_ = batch_memory_.allocate<int32_t>(2 * kCopiesAtOnce);
  const auto num_groups = static_cast<int32_t>(plan_.kv.spec.groups.size());
  for (Step& step : steps_) {
    step.batch = std::make_unique<InputBatch>(plan_.limits, plan_.kv.spec.block_size, num_groups);
    step.copies = pinned_.allocate<int32_t>(2 * kCopiesAtOnce);
    QUIRE_ASSIGN_OR_RETURN(step.event, device_->make_event());
  }

  QUIRE_ASSIGN_OR_RETURN(pinned_logits_, device_->allocate_pinned(num_logits * 4));
  logits_on_host_ = pinned_logits_.allocate<float>(num_logits);
  logits_ = std::make_unique<LogitsStage>(
      [this](std::span<const int32_t> tokens) { return compute_logits(tokens); }, team_,
      std::span<float>(logits_on_host_, static_cast<size_t>(num_logits)), plan_.spec.vocab_size,
      plan_.limits.max_logit_rows);
  requests_ =
      std::make_unique<RequestTable>(plan_.spec.vocab_size, plan_.limits.max_seq_len, num_groups);
  return device_->synchronize();
}

ExecutorInfo GpuRunner::info() const {
  return {.vocab_size = static_cast<int32_t>(plan_.spec.vocab_size),
          .max_model_len = static_cast<int32_t>(plan_.limits.max_seq_len)};
}

Status GpuRunner::initialize(const KvPlan& plan) {
  if (num_blocks_ != 0) return internal_error("KV cache: initialized twice");
  if (plan.num_blocks < 2)
    return invalid_argument("KV cache: expected at least 2 blocks, got {}", plan.num_blocks);
  const int64_t bytes = int64_t{plan.num_blocks} * plan_.kv.spec.block_bytes;
  QUIRE_ASSIGN_OR_RETURN(kv_memory_, device_->allocate(bytes));
  kv_pool_ = kv_memory_.allocate_bytes(bytes);
  if (plan.num_host_blocks > 1) {
    const int64_t host_bytes = int64_t{plan.num_host_blocks} * plan_.kv.spec.block_bytes;
    QUIRE_ASSIGN_OR_RETURN(host_kv_memory_, device_->allocate_pinned(host_bytes));
    host_kv_ = static_cast<std::byte*>(host_kv_memory_.allocate_bytes(host_bytes));
    num_host_blocks_ = plan.num_host_blocks;
  }
  num_blocks_ = plan.num_blocks;
  std::vector<LayerCache> caches = plan_.kv.layer_caches(kv_pool_);
  for (LayerCache& cache : caches) cache.view.order = KvOrder::kTokenMajor;
  decoder_->bind_cache(std::move(caches));
  return {};
}

// Libraries choose their algorithms and kernels are loaded, which capturing must not meet.
Status GpuRunner::warm_up() { return execute_dummy(*this, plan_.limits, num_blocks_); }

bool GpuRunner::work_while_idle() {
  if (num_under_way() > 0) return false;
  const std::optional<GraphBucket> bucket = graphs_->next_uncaptured();
  if (!bucket) return false;
  InputBatch& batch = *steps_[0].batch;
  if (!batch.build(StepPlan{}, *requests_).ok()) return false;
  const int32_t num_reqs = bucket->kind == GraphKind::kWhole ? bucket->size : 1;
  ForwardInputs inputs = inputs_->build(StepPlan{}, batch, num_reqs, bucket->size);
  inputs.max_query_len = 1;
  graphs_->prepare(*bucket, inputs);
  return true;
}

// A block is one piece of memory, on the device as on the host.
Status GpuRunner::copy_to_and_from_host(const std::vector<HostBlockCopy>& copies) {
  const int64_t bytes = plan_.kv.spec.block_bytes;
  for (const HostBlockCopy& copy : copies) {
    if (copy.block.value <= 0 || copy.block.value >= num_blocks_ || copy.host_block.value <= 0 ||
        copy.host_block.value >= num_host_blocks_) {
      return internal_error("step plan: copy of block {} to or from host block {}: out of range",
                            copy.block, copy.host_block);
    }
    std::byte* here = static_cast<std::byte*>(kv_pool_) + copy.block.value * bytes;
    std::byte* host = host_kv_ + copy.host_block.value * bytes;
    if (copy.to_host) {
      device_->copy_to_host(host, here, bytes);
    } else {
      device_->copy_to_device(here, host, bytes);
    }
  }
  return {};
}

Status GpuRunner::copy_blocks(const std::vector<BlockCopy>& copies, int32_t* pinned) {
  for (size_t begin = 0; begin < copies.size(); begin += kCopiesAtOnce) {
    const auto count =
        std::min<int64_t>(kCopiesAtOnce, static_cast<int64_t>(copies.size() - begin));
    // Rare: more copies than one buffer holds.
    if (begin > 0) QUIRE_RETURN_IF_ERROR(device_->synchronize());
    for (int64_t i = 0; i < count; ++i) {
      const BlockCopy& copy = copies[begin + static_cast<size_t>(i)];
      pinned[i] = copy.source.value;
      pinned[kCopiesAtOnce + i] = copy.destination.value;
    }
    device_->copy_to_device(copies_on_device_, pinned, 2 * kCopiesAtOnce * 4);
    for (int32_t part = 0; part < plan_.kv.parts_per_block; ++part) {
      KvCacheView view = plan_.kv.part_view(kv_pool_, part);
      view.order = KvOrder::kTokenMajor;
      kv_block_copy(device_->stream(), {.kv = view,
                                        .source = copies_on_device_,
                                        .destination = copies_on_device_ + kCopiesAtOnce,
                                        .num_copies = count});
    }
  }
  return {};
}

void GpuRunner::run_forward(const StepPlan& plan, const InputBatch& batch) {
  const StepSize size{.num_reqs = batch.num_reqs(),
                      .num_tokens = batch.num_tokens(),
                      .max_query_len = batch.max_query_len()};
  const std::optional<GraphBucket> bucket = graphs_->bucket_of(size);
  const bool is_whole = bucket && bucket->kind == GraphKind::kWhole;
  graphs_->forward(size, bucket,
                   inputs_->build(plan, batch, is_whole ? bucket->size : size.num_reqs,
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
  decoder_->logits({rows_on_device_, tokens.size()}, logits_on_device_);
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

void GpuRunner::sample(const StepPlan& plan, Step& step) {
  const bool takes_part = gpu_options_.sample_on_device && !options_.on_logits;
  const bool has_rows = !step.batch->logits_rows().empty();
  step.on_device = !has_rows || (takes_part && sampling_->takes(*step.batch));
  if (!step.on_device || !has_rows) return;
  step.ticket = sampling_->run(plan, *step.batch, *decoder_, *inputs_);
  for (const LogitsRow& row : step.batch->logits_rows()) {
    if (row.samples) ++step.batch->request(static_cast<size_t>(row.request_index)).num_open_tokens;
  }
}

Status GpuRunner::submit(const StepPlan& plan) {
  const SteadyClock clock;
  if (num_blocks_ == 0) return internal_error("a step before initialize()");
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
  QUIRE_RETURN_IF_ERROR(copy_to_and_from_host(plan.host_copies));
  const int64_t max_blocks = InputBatch::max_blocks(plan_.limits, plan_.kv.spec.block_size);
  QUIRE_RETURN_IF_ERROR(requests_->apply(plan, num_blocks_, max_blocks));
  QUIRE_RETURN_IF_ERROR(inputs_->apply(plan));
  QUIRE_RETURN_IF_ERROR(check_block_copies(plan, num_blocks_));
  QUIRE_RETURN_IF_ERROR(step.batch->build(plan, *requests_));
  QUIRE_RETURN_IF_ERROR(copy_blocks(plan.block_copies, step.copies));
  step.batch->start_results(plan, step.result.requests);
  const int64_t built_us = clock.now_us();
  run_forward(plan, *step.batch);
  sample(plan, step);
  step.event->record();
  step.timings = {};
  step.timings.forward_us = clock.now_us() - built_us;
  ++num_submitted_;
  return {};
}

void GpuRunner::finish(Step& step) {
  if (step.is_done) return;
  step.is_done = true;
  if (!step.on_device) {
    step.status = logits_->run(*step.batch, step.result.requests, options_.on_logits, step.timings);
    return;
  }
  step.status = step.event->wait();
  if (step.status.ok() && !step.batch->logits_rows().empty()) {
    sampling_->store(step.ticket, *step.batch, step.result.requests);
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

Result<StepResult> GpuRunner::execute(const StepPlan& plan) {
  if (num_under_way() > 0) return internal_error("execute: a step is under way");
  if (plan.empty()) {
    const int64_t max_blocks = InputBatch::max_blocks(plan_.limits, plan_.kv.spec.block_size);
    QUIRE_RETURN_IF_ERROR(requests_->apply(plan, num_blocks_, max_blocks));
    QUIRE_RETURN_IF_ERROR(inputs_->apply(plan));
    return StepResult{.step_id = plan.step_id};
  }
  QUIRE_RETURN_IF_ERROR(submit(plan));
  return collect();
}

}  // namespace quire
