#include "exec/gpu/gpu_support.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "kernels/cuda/attention/attention_memory.h"
#include "kernels/cuda/ops.h"

namespace quire {
namespace {

// What the decoder asks of ops that GPUs do not have.
Status check_ops(const DecoderSpec& spec) {
  const auto refuse = [](std::string_view what) {
    return unimplemented("cuda: {}: models with that run on a CPU alone (--device cpu)", what);
  };
  if (spec.block.output_scales) return refuse("outputs that are scaled by column");
  if (!spec.block.final_norm) return refuse("no norm behind the last layer");
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& attention = layer.attention;
    if (attention.qkv_clip > 0.0f) return refuse("clipped queries, keys and values");
    if (attention.qk_norm == QkNorm::kAllHeads && attention.qk_norm_after_rope)
      return refuse("norms of all queries or keys together, after rotation");
  }
  return {};
}

Status check_experts(const ExpertsSpec& experts, int64_t hidden_size) {
  if (!experts.any() || (experts.intermediate_size % 8 == 0 && hidden_size % 8 == 0)) return {};
  return unimplemented("cuda: expected experts whose widths are multiples of 8, got {} inside {}",
                       experts.intermediate_size, hidden_size);
}

Status check_heads(const AttentionSpec& attention, DType kv_dtype, const GpuInfo& gpu) {
  const int32_t head_dim = attention.head_dim;
  const int32_t most = attention.latent.any() ? kMaxAttentionHeadDim : cuda::kMaxHeadDim;
  if (head_dim % 2 != 0 || head_dim > most) {
    return unimplemented("cuda: expected a head dim that is even and at most {}, got {}", most,
                         head_dim);
  }
  if (attention.latent.any()) return {};
  const int64_t wanted = cuda::least_attention_shared_bytes(head_dim, kv_dtype == DType::kF8E4M3);
  if (wanted <= gpu.shared_bytes_per_block) return {};
  return unimplemented(
      "cuda: expected a GPU with {} bytes of shared memory per block for heads of {} dims and a KV "
      "cache of {}, got {}",
      wanted, head_dim, to_string(kv_dtype), gpu.shared_bytes_per_block);
}

std::string_view untried_kernels_of(const AttentionSpec& attention, DType kv_dtype) {
  if (!attention.any()) return {};
  if (attention.latent.any()) return "latent attention";
  if (!cuda::fits_tensor_cores(attention.head_dim, kv_dtype == DType::kF8E4M3))
    return "heads whose dims are no multiple of 8, or more than 256,";
  if (attention.window_is_chunk) return "attention in chunks";
  if (attention.scales_queries) return "queries scaled by their position";
  if (attention.value_norm || attention.has_output_gate || attention.output_scale != 1.0f)
    return "norms, gates and scales of values and heads";
  if (attention.qk_norm && (*attention.qk_norm != QkNorm::kHead || attention.qk_norm_after_rope))
    return "norms of queries and keys together or after rotation";
  return {};
}

// The kernels of the model that only emulation has shown to be right; empty: there are none.
std::string_view untried_kernels_of(const ModelPlan& plan) {
  const DecoderSpec& spec = plan.spec;
  if (spec.has_experts()) return "routed experts";
  if (spec.has_states()) return "layers that carry a state";
  if (spec.streams.any()) return "several residual streams";
  if (!spec.alibi_slopes.empty()) return "ALiBi";
  if (!spec.block.input_norms) return "layers that norm their outputs alone";
  if (spec.layer_inputs.any() || spec.layer_scale) return "inputs or scales of each layer";
  for (const LayerSpec& layer : spec.layers) {
    if (layer.ffn.activation == Activation::kXielu) return "xIELU";
    if (layer.ffn.gate_cut) return "sparse MLPs";
    if (layer.ffn.gate_scale != 1.0f || layer.ffn.inner_scale != 1.0f) return "scales in MLPs";
    const std::string_view untried = untried_kernels_of(layer.attention, plan.kv_dtype);
    if (!untried.empty()) return untried;
  }
  return {};
}

}  // namespace

Status check_gpu_support(const ModelPlan& plan, const GpuInfo& gpu, bool untried_kernels,
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
  const std::string_view untried = untried_kernels_of(plan);
  if (!untried.empty() && !untried_kernels) {
    return unimplemented(
        "cuda: the kernels of {} have not run on a GPU yet: --device cuda runs them", untried);
  }
  for (const LayerSpec& layer : plan.spec.layers) {
    QUIRE_RETURN_IF_ERROR(check_experts(layer.ffn.experts, plan.spec.hidden_size));
    if (layer.attention.any())
      QUIRE_RETURN_IF_ERROR(check_heads(layer.attention, plan.kv_dtype, gpu));
  }
  if (!std::has_single_bit(static_cast<uint32_t>(plan.kv.spec.block_size))) {
    return invalid_argument("--block-size: expected a power of two on a GPU, got {}",
                            plan.kv.spec.block_size);
  }
  if (num_table_entries > std::numeric_limits<int32_t>::max()) {
    return invalid_argument(
        "--max-num-seqs x --max-model-len: {} entries of block tables are more than a GPU's "
        "kernels index",
        num_table_entries);
  }
  return {};
}

}  // namespace quire
