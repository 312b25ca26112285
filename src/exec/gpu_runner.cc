#include "exec/gpu_runner.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/clock.h"
#include "exec/dummy_step.h"
#include "exec/gpu_memory_plan.h"
#include "exec/gpu_weights.h"
#include "kernels/row_staging.h"

namespace quire {
namespace {

constexpr int64_t kCopiesAtOnce = 1024;
constexpr int64_t kGraphBytes = int64_t{8} << 20;  // nodes of a whole forward pass, rounded up

Status check_dtype(std::string_view flag, std::string_view name) {
  if (name == "auto" || name == "bfloat16") return {};
  return invalid_argument("{}: expected auto or bfloat16 on a GPU, got {}", flag, name);
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
  return {};
}

}  // namespace

GpuRunner::GpuRunner(ModelRunnerOptions options, const GpuRunnerOptions& gpu_options,
                     std::unique_ptr<Device> device)
    : options_(std::move(options)),
      gpu_options_(gpu_options),
      device_(std::move(device)),
      team_({.num_threads = options_.threads, .pin = options_.pin_threads}) {
  device_->stream().set_deterministic(gpu_options.deterministic);
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
  if (gpu_options_.graphs)
    dispatcher_ = GraphDispatcher(static_cast<int32_t>(plan_.limits.max_reqs));
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
  memory.graphs = static_cast<int64_t>(dispatcher_.buckets().size()) * kGraphBytes;
  memory.batch =
      InputBatch::arena_bytes(plan_.limits, kv.block_size, static_cast<int32_t>(kv.groups.size())) +
      Arena::padded(plan_.limits.max_logit_rows * 4) + Arena::padded(2 * kCopiesAtOnce * 4);
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
  const int64_t num_logits = plan_.limits.max_logit_rows * plan_.spec.vocab_size;
  logits_on_device_ = workspace_.allocate<float>(num_logits);

  QUIRE_ASSIGN_OR_RETURN(batch_memory_, device_->allocate(memory.batch));
  QUIRE_ASSIGN_OR_RETURN(pinned_, device_->allocate_pinned(memory.batch));
  batch_base_ = static_cast<std::byte*>(batch_memory_.allocate_bytes(memory.batch));
  pinned_base_ = static_cast<std::byte*>(pinned_.allocate_bytes(0));
  const KvSpec& kv = plan_.kv.spec;
  const auto num_groups = static_cast<int32_t>(kv.groups.size());
  batch_ = std::make_unique<InputBatch>(plan_.limits, kv.block_size, num_groups, pinned_);
  rows_ = pinned_.allocate<int32_t>(plan_.limits.max_logit_rows);
  copies_ = pinned_.allocate<int32_t>(2 * kCopiesAtOnce);

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
  num_blocks_ = plan.num_blocks;
  std::vector<LayerCache> caches = plan_.kv.layer_caches(kv_pool_);
  for (LayerCache& cache : caches) cache.view.order = KvOrder::kTokenMajor;
  decoder_->bind_cache(std::move(caches));
  return {};
}

Status GpuRunner::warm_up() {
  // Libraries choose their algorithms and kernels are loaded, which capturing must not meet.
  QUIRE_RETURN_IF_ERROR(execute_dummy(*this, plan_.limits, num_blocks_));
  return capture_graphs();
}

// Every bucket once without a graph, for the algorithms of its shapes, then captured.
Status GpuRunner::capture_graphs() {
  for (const int32_t bucket : dispatcher_.buckets()) {
    QUIRE_RETURN_IF_ERROR(batch_->build(StepPlan{}, *requests_));
    batch_->pad(bucket, bucket);
    ForwardInputs inputs = upload_batch();
    inputs.max_query_len = 1;
    decoder_->forward(inputs);
    QUIRE_RETURN_IF_ERROR(device_->synchronize());
    QUIRE_RETURN_IF_ERROR(device_->begin_capture());
    decoder_->forward(inputs);
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, device_->end_capture());
    graphs_.push_back(std::move(graph));
  }
  return {};
}

template <typename T>
T* GpuRunner::on_device(const T* host) const {
  const std::ptrdiff_t offset = reinterpret_cast<const std::byte*>(host) - pinned_base_;
  return reinterpret_cast<T*>(batch_base_ + offset);
}

template <typename T>
T* GpuRunner::upload(const T* host, int64_t count) {
  T* device = on_device(host);
  device_->copy_to_device(device, host, count * static_cast<int64_t>(sizeof(T)));
  return device;
}

ForwardInputs GpuRunner::upload_batch() {
  ForwardInputs inputs = batch_->inputs();
  inputs.input_ids = upload(inputs.input_ids, inputs.num_tokens);
  inputs.positions = upload(inputs.positions, inputs.num_tokens);
  inputs.query_start_loc = upload(inputs.query_start_loc, inputs.num_reqs + 1);
  inputs.seq_lens = upload(inputs.seq_lens, inputs.num_reqs);
  device_groups_.clear();
  for (const KvGroupInputs& group : inputs.groups) {
    device_groups_.push_back({upload(group.slot_mapping, inputs.num_tokens),
                              upload(group.block_table, inputs.num_reqs * group.max_blocks),
                              group.max_blocks});
  }
  inputs.groups = device_groups_;
  return inputs;
}

Status GpuRunner::copy_blocks(const std::vector<BlockCopy>& copies) {
  for (size_t begin = 0; begin < copies.size(); begin += kCopiesAtOnce) {
    const auto count =
        std::min<int64_t>(kCopiesAtOnce, static_cast<int64_t>(copies.size() - begin));
    for (int64_t i = 0; i < count; ++i) {
      const BlockCopy& copy = copies[begin + static_cast<size_t>(i)];
      copies_[i] = copy.source.value;
      copies_[kCopiesAtOnce + i] = copy.destination.value;
    }
    const int32_t* device_copies = upload(copies_, 2 * kCopiesAtOnce);
    for (int32_t part = 0; part < plan_.kv.parts_per_block; ++part) {
      KvCacheView view = plan_.kv.part_view(kv_pool_, part);
      view.order = KvOrder::kTokenMajor;
      kv_block_copy(device_->stream(), {.kv = view,
                                        .source = device_copies,
                                        .destination = device_copies + kCopiesAtOnce,
                                        .num_copies = count});
    }
    QUIRE_RETURN_IF_ERROR(device_->synchronize());  // before copies_ is written again
  }
  return {};
}

void GpuRunner::run_forward() {
  ForwardInputs inputs = batch_->inputs();
  const auto bucket = graphs_.empty() ? std::nullopt
                                      : dispatcher_.choose({.num_reqs = inputs.num_reqs,
                                                            .num_tokens = inputs.num_tokens,
                                                            .max_query_len = inputs.max_query_len});
  if (!bucket) return decoder_->forward(upload_batch());
  const int32_t size = dispatcher_.buckets()[*bucket];
  batch_->pad(size, size);
  upload_batch();
  graphs_[*bucket]->launch();
}

Status GpuRunner::compute_logits(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), rows_);
  const int32_t* rows = upload(rows_, count);
  decoder_->logits({rows, tokens.size()}, logits_on_device_);
  device_->copy_to_host(logits_on_host_, logits_on_device_, count * plan_.spec.vocab_size * 4);
  return device_->synchronize();
}

Result<StepResult> GpuRunner::execute(const StepPlan& plan) {
  const SteadyClock clock;
  const int64_t start_us = clock.now_us();
  StepTimings timings;
  if (num_blocks_ == 0) return internal_error("execute() before initialize()");
  const int64_t max_blocks = InputBatch::max_blocks(plan_.limits, plan_.kv.spec.block_size);
  QUIRE_RETURN_IF_ERROR(requests_->apply(plan, num_blocks_, max_blocks));
  QUIRE_RETURN_IF_ERROR(check_block_copies(plan, num_blocks_));
  QUIRE_RETURN_IF_ERROR(copy_blocks(plan.block_copies));
  StepResult result;
  result.step_id = plan.step_id;
  if (plan.empty()) return result;
  QUIRE_RETURN_IF_ERROR(batch_->build(plan, *requests_));
  batch_->start_results(plan, result.requests);
  timings.batch_us = clock.now_us() - start_us;
  const int64_t forward_us = clock.now_us();
  run_forward();
  timings.forward_us = clock.now_us() - forward_us;
  QUIRE_RETURN_IF_ERROR(logits_->run(*batch_, result.requests, options_.on_logits, timings));
  // Without sampled rows nothing has waited yet, and the next step writes the pinned batch again.
  QUIRE_RETURN_IF_ERROR(device_->synchronize());
  result.execute_us = clock.now_us() - start_us;
  if (options_.on_step) options_.on_step(timings);
  return result;
}

}  // namespace quire
