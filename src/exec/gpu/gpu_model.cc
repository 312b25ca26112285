#include "exec/gpu/gpu_model.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "exec/gpu/adapters/gpu_adapters.h"
#include "exec/gpu/gpu_kv_cache.h"
#include "exec/gpu/gpu_memory_plan.h"
#include "exec/gpu/gpu_support.h"
#include "exec/gpu/graphs/step_graphs.h"
#include "exec/gpu/hidden/gpu_hidden_states.h"
#include "exec/runner_memory.h"
#include "nn/decoder/decoder_memory.h"

namespace quire {
namespace {

// Refuses what ranks on GPUs do not support, and what would make their bits differ.
Status check_ranked(const ModelRunnerOptions& options, const GpuRunnerOptions& gpu_options) {
  if (options.share.is_whole() != (gpu_options.ranks == nullptr))
    return internal_error("a rank without its group, or a group without ranks");
  if ((options.stage.count > 1) != (gpu_options.link != nullptr))
    return internal_error("a stage without its link, or a link without stages");
  if (options.share.is_whole()) return {};
  if (options.expert_balance.is_enabled || options.share.num_redundant_experts > 0)
    return unimplemented("--enable-eplb: expected --device cpu, got cuda");
  if (gpu_options.deterministic) return {};
  return unimplemented(
      "--no-deterministic: expected --tensor-parallel-size 1, got {}: each GPU would choose its "
      "own algorithms for what all of them compute alike",
      options.share.num_ranks);
}

Status check_dtypes(const ModelRunnerOptions& options) {
  if (options.dtype != "auto" && options.dtype != "bfloat16")
    return invalid_argument("--dtype: expected auto or bfloat16 on a GPU, got {}", options.dtype);
  for (const std::string_view taken : {"auto", "bfloat16", "fp8", "fp8_e4m3"}) {
    if (options.kv_cache_dtype == taken) return {};
  }
  return invalid_argument("--kv-cache-dtype: expected auto, bfloat16 or fp8 on a GPU, got {}",
                          options.kv_cache_dtype);
}

}  // namespace

GpuModel::GpuModel(ModelRunnerOptions options, const GpuRunnerOptions& gpu_options,
                   std::unique_ptr<Device> device, ThreadTeam team)
    : options_(std::move(options)),
      gpu_options_(gpu_options),
      device_(std::move(device)),
      team_(std::move(team)),
      packing_(*device_, team_) {
  // A draft model's input differs from step to step (DraftRows), and a graph's must not.
  if (options_.draft_head != nullptr) gpu_options_.graphs = GraphMode::kNone;
  device_->stream().set_deterministic(gpu_options.deterministic);
  device_->stream().set_programmatic_launch(gpu_options.programmatic_launch);
  device_->stream().set_warpgroup_products(gpu_options.warpgroup_products &&
                                           device_->info().gpu.compute_capability == 90);
  device_->stream().set_algorithm_cache_dir(options_.weight_cache_dir);
}

Result<std::unique_ptr<GpuModel>> GpuModel::load(ModelRunnerOptions options,
                                                 const GpuRunnerOptions& gpu_options,
                                                 std::unique_ptr<Device> device) {
  QUIRE_RETURN_IF_ERROR(check_dtypes(options));
  QUIRE_RETURN_IF_ERROR(check_ranked(options, gpu_options));
  options.dtype = "bfloat16";
  if (options.kv_cache_dtype == "auto") options.kv_cache_dtype = "bfloat16";
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, start_team(options));
  std::unique_ptr<GpuModel> model(
      new GpuModel(std::move(options), gpu_options, std::move(device), std::move(team)));
  ModelLoading loading;
  QUIRE_RETURN_IF_ERROR(model->prepare(loading));
  QUIRE_RETURN_IF_ERROR(model->load_weights(loading));
  return model;
}

GpuStepInputs::Shape GpuModel::inputs_shape() const {
  const KvSpec& kv = plan_.kv.spec;
  const bool has_states = kv.uses(KvPool::kState);
  return {.limits = plan_.limits,
          .block_size = kv.block_size,
          .num_groups = static_cast<int32_t>(kv.groups.size()) - (has_states ? 1 : 0),
          .max_segments = has_states ? max_state_segments(plan_.limits, kv) : 0,
          .num_staged = gpu_options_.steps_in_flight()};
}

GpuSampling::Shape GpuModel::sampling_shape() const {
  constexpr int64_t kRowsPerRequest = 8;  // when all requests have drafts
  return {.max_requests = plan_.limits.max_reqs,
          .max_rows = std::min(plan_.limits.max_tokens, kRowsPerRequest * plan_.limits.max_reqs),
          .max_logit_rows = plan_.limits.max_logit_rows,
          .vocab_size = plan_.spec.vocab_size,
          .num_staged = gpu_options_.steps_in_flight()};
}

int64_t GpuModel::step_bytes() const {
  return plan_.limits.max_tokens * plan_.spec.hidden_size * int64_t{sizeof(float)};
}

Status GpuModel::prepare(ModelLoading& loading) {
  QUIRE_RETURN_IF_ERROR(prepare_model(options_, packing_, plan_, weights_, loading));
  packing_.expand_unlike_experts(weights_->slots());
  QUIRE_RETURN_IF_ERROR(
      check_gpu_support(plan_, device_->info().gpu, inputs_shape().num_table_entries()));
  plan_.limits.activation_type = DType::kBF16;
  plan_.limits.mlp_tokens = plan_.limits.max_tokens;
  if (!options_.share.is_whole())
    plan_.shared_bytes = RankExchange::shared_bytes(plan_.whole, options_.share, plan_.limits);
  dispatcher_ = GraphDispatcher(gpu_options_.graphs, static_cast<int32_t>(plan_.limits.max_reqs),
                                plan_.limits.max_tokens);
  if (GpuHiddenStates::are_wanted(options_, plan_) &&
      (gpu_options_.ranks != nullptr || gpu_options_.link != nullptr)) {
    return unimplemented(
        "cuda: expected one GPU for a model that makes embeddings or scores, or that others draft "
        "for by its hidden states");
  }
  QUIRE_RETURN_IF_ERROR(plan_memory(loading));
  if (gpu_options_.ranks != nullptr)
    QUIRE_RETURN_IF_ERROR(gpu_options_.ranks->allocate(plan_.shared_bytes));
  return gpu_options_.link == nullptr ? Status() : gpu_options_.link->allocate(step_bytes());
}

Status GpuModel::plan_memory(const ModelLoading& loading) {
  MemoryPlan& memory = plan_.memory;
  const GpuStream& stream = device_->stream();
  if (options_.max_adapters > 0)
    plan_adapters(options_, *weights_, stream, LoraLayout::kRows, plan_);
  const DecoderMemory decoder = decoder_memory(plan_.spec, *weights_, plan_.limits, stream);
  const KvSpec& kv = plan_.kv.spec;
  memory.weights = loading.weight_bytes(*weights_, packing_);
  memory.matrices = weights_->matrix_bytes(packing_);
  plan_.matrix_compute = weights_->matrix_compute();
  memory.activations = decoder.activations + GpuHiddenStates::device_bytes(options_, plan_);
  memory.linear_workspace = decoder.linear_workspace;
  memory.attention_workspace = decoder.attention_workspace;
  GpuRanks* const ranks = gpu_options_.ranks;
  GpuStageLink* const link = gpu_options_.link;
  memory.hidden_rows = link == nullptr ? 0 : link->device_bytes(step_bytes());
  memory.logits = ranks == nullptr
                      ? Arena::padded(plan_.limits.max_logit_rows * plan_.spec.vocab_size * 4)
                      : GpuRanks::device_bytes(plan_.shared_bytes);
  memory.graphs = StepGraphs::device_bytes(dispatcher_, options_.max_adapters > 0,
                                           plan_.spec.layers.size() + 1);
  memory.batch =
      GpuStepInputs::device_bytes(inputs_shape()) + GpuSampling::device_bytes(sampling_shape()) +
      Arena::padded(plan_.limits.max_logit_rows * 4) + GpuKvCache::device_bytes(plan_.kv) +
      GpuAdapters::device_bytes(options_, *weights_, plan_.limits.max_tokens);
  memory.block_bytes = kv.block_bytes;
  memory.kv_spec = kv;
  memory.kv_bytes_per_token = plan_.kv.bytes_per_token();
  const DeviceInfo info = device_->info();
  // All ranks that share the GPU must have measured its free memory before any of them allocates.
  if (ranks != nullptr && !ranks->all(true)) return ranks->status();
  if (link != nullptr && !link->meet()) return link->status();
  const int64_t num_on_gpu = gpu_options_.num_on_gpu;
  QUIRE_RETURN_IF_ERROR(plan_gpu_memory({.total_bytes = info.total_memory_bytes / num_on_gpu,
                                         .free_bytes = info.free_memory_bytes / num_on_gpu,
                                         .utilization = options_.memory_utilization,
                                         .kv_cache_bytes = options_.kv_cache_memory_bytes,
                                         .useful_kv_bytes = useful_kv_bytes(plan_)},
                                        memory));
  memory.kv_plan = divided_kv_memory(plan_);
  return {};
}

Status GpuModel::load_weights(const ModelLoading& loading) {
  if (packing_.counts().expanded > 0) {
    log_warn(
        "cuda: {} quantized matrices are in groups of 16, which no kernel takes: kept as bfloat16",
        packing_.counts().expanded);
  }
  if (packing_.counts().expanded_of_experts > 0) {
    log_warn(
        "cuda: {} quantized matrices of experts are in groups of 16, have columns in an order of "
        "their own or are not quantized alike in a layer: kept as bfloat16",
        packing_.counts().expanded_of_experts);
  }
  QUIRE_ASSIGN_OR_RETURN(weight_memory_, device_->allocate(plan_.memory.weights));
  return quire::load_weights(packing_, &team_, options_, loading, *weights_, weight_memory_);
}

}  // namespace quire
