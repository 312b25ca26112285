#include "exec/gpu/gpu_support.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "kernels/cuda/attention/attention_memory.h"
#include "kernels/cuda/ops.h"

namespace quire {
namespace {

// Checks that GPUs have all ops that the decoder needs.
Status check_ops(const DecoderSpec& spec) {
  const auto refuse = [](std::string_view what) {
    return unimplemented("cuda: {}: models with that run on a CPU alone (--device cpu)", what);
  };
  if (spec.block.output_scales) return refuse("outputs that are scaled by column");
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& attention = layer.attention;
    if (attention.index.any()) {
      return unimplemented(
          "cuda: this model attends to {} chosen tokens of a longer context, which works on CPUs "
          "only: use --max-model-len {} or --device cpu",
          attention.index.top_k, attention.index.top_k);
    }
    if (attention.any() && !attention.causal) {
      return unimplemented(
          "cuda: tokens of this model see those behind them, which works on CPUs only: use "
          "--device cpu");
    }
    if (attention.qkv_clip > 0.0f) return refuse("clipped queries, keys and values");
    if (attention.qk_norm == QkNorm::kBiasedHead) return refuse("norms of heads with biases");
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

}  // namespace

Status check_gpu_support(const ModelPlan& plan, const GpuInfo& gpu, int64_t num_table_entries) {
  QUIRE_RETURN_IF_ERROR(check_ops(plan.spec));
  if (plan.spec.cross.any()) {
    return unimplemented(
        "cuda: this model attends to the output of an encoder, which works on CPUs only: use "
        "--device cpu");
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
