#include "exec/gpu/gpu_model.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/log.h"
#include "exec/gpu/gpu_kv_cache.h"
#include "exec/gpu/gpu_memory_plan.h"
#include "exec/gpu/graphs/step_graphs.h"
#include "kernels/cuda/attention/attention_memory.h"
#include "nn/decoder/decoder_memory.h"

namespace quire {
namespace {

Status check_dtypes(const ModelRunnerOptions& options) {
  if (options.dtype != "auto" && options.dtype != "bfloat16")
    return invalid_argument("--dtype: expected auto or bfloat16 on a GPU, got {}", options.dtype);
  for (const std::string_view taken : {"auto", "bfloat16", "fp8", "fp8_e4m3"}) {
    if (options.kv_cache_dtype == taken) return {};
  }
  return invalid_argument("--kv-cache-dtype: expected auto, bfloat16 or fp8 on a GPU, got {}",
                          options.kv_cache_dtype);
}

// What the decoder asks of ops that GPUs do not have.
Status check_ops(const DecoderSpec& spec) {
  const auto refuse = [](std::string_view what) {
    return unimplemented("cuda: {}: models with that run on a CPU alone (--device cpu)", what);
  };
  if (spec.has_latents()) return refuse("latent attention");
  if (!spec.alibi_slopes.empty()) return refuse("ALiBi");
  if (spec.query_scale) return refuse("queries scaled by their position");
  if (!spec.block.input_norms) return refuse("layers that norm their outputs alone");
  if (spec.layer_inputs.any()) return refuse("inputs of each layer");
  if (spec.streams.any()) return refuse("several residual streams");
  if (spec.layer_scale) return refuse("a scale of each layer");
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& attention = layer.attention;
    if (layer.ffn.gate_cut) return refuse("sparse MLPs");
    if (layer.ffn.activation == Activation::kXielu) return refuse("xIELU");
    if (layer.state.any()) return refuse("layers that carry a state");
    if (!attention.has_own_kv()) return refuse("layers that read the keys and values of others");
    if (attention.window_is_chunk) return refuse("attention in chunks");
    if (attention.value_norm) return refuse("norms of values");
    if (attention.qkv_clip > 0.0f) return refuse("clipped queries, keys and values");
    if (attention.has_output_gate) return refuse("a gate on the attention's output");
    if (!attention.qk_norm) continue;
    if (*attention.qk_norm != QkNorm::kHead) return refuse("norms of all queries or keys together");
    if (attention.qk_norm_after_rope) return refuse("norms of queries and keys after rotation");
  }
  return {};
}

Status check_experts(const ExpertsSpec& experts, int64_t hidden_size) {
  if (!experts.any()) return {};
  const auto refuse = [](std::string_view what) {
    return unimplemented("cuda: experts with {} run on a CPU alone (--device cpu)", what);
  };
  if (experts.own_norms) return refuse("norms of their own");
  if (experts.weighs_inputs) return refuse("inputs that are weighed");
  if (experts.has_scale) return refuse("a scale of each");
  if (experts.intermediate_size % 8 != 0 || hidden_size % 8 != 0) {
    return unimplemented("cuda: expected experts whose widths are multiples of 8, got {} inside {}",
                         experts.intermediate_size, hidden_size);
  }
  return {};
}

Status check_shape(const ModelPlan& plan, const GpuInfo& gpu, bool untried_kernels,
                   int64_t num_table_entries) {
  QUIRE_RETURN_IF_ERROR(check_ops(plan.spec));
  if (plan.spec.pooling.any()) {
    return unimplemented(
        "cuda: this model makes embeddings or scores, which CPUs alone do: use --device cpu");
  }
  if (plan.spec.cross.any()) {
    return unimplemented(
        "cuda: this model looks at what an encoder has made, which CPUs alone do: use --device "
        "cpu");
  }
  if (plan.spec.has_experts() && !untried_kernels) {
    return unimplemented(
        "cuda: the kernels of routed experts have not run on a GPU yet: --device cuda runs them");
  }
  for (const LayerSpec& layer : plan.spec.layers) {
    QUIRE_RETURN_IF_ERROR(check_experts(layer.ffn.experts, plan.spec.hidden_size));
    const int32_t head_dim = layer.attention.head_dim;
    if (head_dim % 8 != 0 || head_dim > 256) {
      return unimplemented(
          "cuda: expected a head dim that is a multiple of 8 and at most 256, got {}", head_dim);
    }
    if (plan.kv_dtype == DType::kF8E4M3 && head_dim % 16 != 0) {
      return unimplemented(
          "cuda: expected a head dim that is a multiple of 16 for an fp8 KV cache, got {}",
          head_dim);
    }
    const int64_t wanted =
        cuda::least_attention_shared_bytes(head_dim, plan.kv_dtype == DType::kF8E4M3);
    if (wanted > gpu.shared_bytes_per_block) {
      return unimplemented(
          "cuda: expected a GPU with {} bytes of shared memory per block for heads of {} dims and "
          "a KV "
          "cache of {}, got {}",
          wanted, head_dim, to_string(plan.kv_dtype), gpu.shared_bytes_per_block);
    }
  }
  if (!std::has_single_bit(static_cast<uint32_t>(plan.kv.spec.block_size))) {
    return invalid_argument("--block-size: expected a power of two on a GPU, got {}",
                            plan.kv.spec.block_size);
  }
  if (num_table_entries > std::numeric_limits<int32_t>::max()) {
    return invalid_argument(
        "--max-num-seqs x --max-model-len: {} entries of block tables are more than a GPU's "
        "kernels "
        "index",
        num_table_entries);
  }
  return {};
}

}  // namespace

GpuModel::GpuModel(ModelRunnerOptions options, const GpuRunnerOptions& gpu_options,
                   std::unique_ptr<Device> device, ThreadTeam team)
    : options_(std::move(options)),
      gpu_options_(gpu_options),
      device_(std::move(device)),
      team_(std::move(team)),
      packing_(*device_, team_) {
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
  return {.limits = plan_.limits,
          .block_size = plan_.kv.spec.block_size,
          .num_groups = static_cast<int32_t>(plan_.kv.spec.groups.size())};
}

GpuSampling::Shape GpuModel::sampling_shape() const {
  constexpr int64_t kRowsPerRequest = 8;  // where all requests have drafts
  return {.max_requests = plan_.limits.max_reqs,
          .max_rows = std::min(plan_.limits.max_tokens, kRowsPerRequest * plan_.limits.max_reqs),
          .max_logit_rows = plan_.limits.max_logit_rows,
          .vocab_size = plan_.spec.vocab_size};
}

Status GpuModel::prepare(ModelLoading& loading) {
  QUIRE_RETURN_IF_ERROR(prepare_model(options_, packing_, plan_, weights_, loading));
  QUIRE_RETURN_IF_ERROR(check_shape(plan_, device_->info().gpu, gpu_options_.untried_kernels,
                                    inputs_shape().num_table_entries()));
  plan_.limits.activation_type = DType::kBF16;
  plan_.limits.mlp_tokens = plan_.limits.max_tokens;
  if (gpu_options_.graphs) {
    dispatcher_ =
        GraphDispatcher(static_cast<int32_t>(plan_.limits.max_reqs), plan_.limits.max_tokens);
  }
  return plan_memory(loading);
}

Status GpuModel::plan_memory(const ModelLoading& loading) {
  MemoryPlan& memory = plan_.memory;
  const GpuStream& stream = device_->stream();
  const DecoderMemory decoder = decoder_memory(plan_.spec, *weights_, plan_.limits, stream);
  const KvSpec& kv = plan_.kv.spec;
  memory.weights = loading.weight_bytes(*weights_, packing_);
  memory.matrices = weights_->matrix_bytes(packing_);
  plan_.matrix_compute = weights_->matrix_compute();
  memory.activations = decoder.activations;
  memory.linear_workspace = decoder.linear_workspace;
  memory.attention_workspace = decoder.attention_workspace;
  memory.logits = Arena::padded(plan_.limits.max_logit_rows * plan_.spec.vocab_size * 4);
  memory.graphs = StepGraphs::device_bytes(dispatcher_, plan_.spec.layers.size() + 1);
  memory.batch =
      GpuStepInputs::device_bytes(inputs_shape()) + GpuSampling::device_bytes(sampling_shape()) +
      Arena::padded(plan_.limits.max_logit_rows * 4) + GpuKvCache::device_bytes(plan_.kv);
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

Status GpuModel::load_weights(const ModelLoading& loading) {
  if (packing_.counts().expanded > 0) {
    log_warn(
        "cuda: {} quantized matrices are in groups of 16, which no kernel takes: kept as bfloat16",
        packing_.counts().expanded);
  }
  if (packing_.counts().expanded_of_experts > 0) {
    log_warn("cuda: {} quantized matrices of experts are kept as bfloat16",
             packing_.counts().expanded_of_experts);
  }
  QUIRE_ASSIGN_OR_RETURN(weight_memory_, device_->allocate(plan_.memory.weights));
  return quire::load_weights(packing_, &team_, options_, loading, *weights_, weight_memory_);
}

}  // namespace quire
