#include "exec/runner_memory.h"

#include <algorithm>

#include "core/kv_division.h"
#include "exec/balancing/expert_balancer.h"
#include "exec/hidden/hidden_stages.h"
#include "exec/input_batch.h"
#include "exec/memory/free_memory.h"
#include "exec/pooling_stage.h"
#include "nn/adapters/lora_weights.h"
#include "nn/decoder/decoder_memory.h"
#include "tensor/arena.h"

namespace quire {
namespace {

// Stacks, code, allocator, request state: measured at 30 to 50 MiB, rounded up.
constexpr int64_t kProcessBytes = int64_t{96} << 20;

KvLoad load_of(const DecoderLimits& limits) {
  return {.max_num_seqs = limits.max_reqs, .max_step_tokens = limits.max_tokens};
}

void plan_weights(const ModelRunnerOptions& options, const ModelLoading& loading,
                  const DecoderWeights& weights, const WeightPacking& packing,
                  const HostStream& stream, ModelPlan& plan) {
  MemoryPlan& memory = plan.memory;
  memory.weights = loading.weight_bytes(weights, packing);
  memory.matrices = weights.matrix_bytes(packing);
  memory.mapped_tables = loading.checkpoint.borrowed_bytes();
  plan.matrix_compute = weights.matrix_compute();
  if (options.expert_balance.is_enabled && options.share.spreads_experts())
    memory.moving_experts = moving_expert_bytes(weights.slots(), packing);
  if (options.max_adapters == 0) return;
  plan_adapters(options, weights, stream, LoraLayout::kPanels, plan);
}

void plan_workspace(const ModelRunnerOptions& options, const DecoderWeights& weights,
                    const HostStream& stream, ModelPlan& plan) {
  MemoryPlan& memory = plan.memory;
  const DecoderMemory decoder = decoder_memory(plan.spec, weights, plan.limits, stream);
  memory.activations = decoder.activations + PoolingStage::memory_bytes(plan.spec, plan.limits);
  memory.linear_workspace = decoder.linear_workspace;
  memory.attention_workspace = decoder.attention_workspace;
  memory.hidden_rows = HiddenStages::memory_bytes(
      options.hidden_rows.get(), options.draft_head != nullptr, plan.spec, plan.limits);
  if (options.share.is_whole()) {
    memory.logits = Arena::padded(plan.limits.max_logit_rows * plan.spec.vocab_size * 4) +
                    Arena::padded(plan.limits.max_logit_rows * plan.spec.head_size * 4);
  } else {
    memory.activations += plan.shared_bytes / options.share.num_ranks;
  }
  memory.batch = InputBatch::arena_bytes(plan.limits, plan.kv.spec);
}

// Returns the bytes of the states of all running requests, and of a snapshot at each place where
// one of them can take one.
int64_t useful_state_bytes(const ModelPlan& plan) {
  const KvSpec& kv = plan.kv.spec;
  if (!kv.uses(KvPool::kState)) return 0;
  const int64_t num_snapshots =
      plan.limits.max_reqs * (plan.limits.max_seq_len / kv.state.block_size);
  return (num_running_states(kv, load_of(plan.limits)) + num_snapshots) * kv.state.block_bytes;
}

void plan_kv_memory(const ModelRunnerOptions& options, ModelPlan& plan) {
  MemoryPlan& memory = plan.memory;
  const KvSpec& kv = plan.kv.spec;
  memory.block_bytes = kv.block_bytes;
  memory.kv_spec = kv;
  memory.kv_bytes_per_token = plan.kv.bytes_per_token();
  memory.free_memory =
      options.free_memory_bytes > 0 ? options.free_memory_bytes : free_memory_bytes();
  memory.host_kv = options.host_kv_bytes;
  memory.num_replicas = options.num_replicas;
  if (options.kv_cache_memory_bytes) {
    memory.kv_cache = *options.kv_cache_memory_bytes / memory.num_replicas;
  } else {
    memory.budget =
        static_cast<int64_t>(static_cast<double>(memory.free_memory) * options.memory_utilization);
    const int64_t shared =
        kProcessBytes + memory.weights + memory.adapters + memory.vision + memory.host_kv;
    memory.kv_cache = std::min(useful_kv_bytes(plan),
                               (memory.budget - shared) / memory.num_replicas - memory.workspace());
  }
  memory.kv_plan = divided_kv_memory(plan);
}

}  // namespace

void plan_adapters(const ModelRunnerOptions& options, const DecoderWeights& weights,
                   const Stream& stream, LoraLayout layout, ModelPlan& plan) {
  const std::vector<WeightSlot>& slots = weights.slots();
  plan.memory.adapters = options.lora_memory_bytes;
  if (plan.memory.adapters == 0) {
    const LoraWeights::MostBytes most =
        LoraWeights::most_bytes(slots, options.max_lora_rank, plan.dtype, layout);
    plan.memory.adapters =
        options.max_adapters * most.dense +
        options.max_expert_adapters.value_or(options.max_adapters) * most.experts +
        options.lora_whole_elements * size_bytes(plan.dtype);
  }
  LoraLimits& limits = plan.limits.lora;
  limits = LoraWeights::limits(slots, options.max_lora_rank, plan.dtype, layout);
  if (layout == LoraLayout::kRows) return;  // the other limits do not matter on a GPU
  for (size_t i = 0; i < plan.spec.layers.size(); ++i) {
    const RouterSpec& router = plan.spec.layers[i].ffn.experts.router;
    limits.num_experts = std::max(limits.num_experts, std::ssize(weights.layer(i).experts.slots));
    limits.num_experts_chosen = std::max<int64_t>(
        limits.num_experts_chosen, router.num_experts == 0 ? 0 : router.experts_per_token);
  }
  const MatrixWeight& head = weights.lm_head().weight;
  if (head.parts.empty()) return;
  limits.head_workspace_bytes = linear_workspace_bytes(
      stream, kWholeHeadRows,
      WeightSpec{.n = head.n, .k = head.k, .dtype = plan.dtype, .compute = plan.compute});
}

int64_t useful_kv_bytes(const ModelPlan& plan) {
  const KvSpec& kv = plan.kv.spec;
  const int64_t most_tokens = plan.spec.is_bidirectional()
                                  ? plan.limits.max_tokens
                                  : plan.limits.max_reqs * plan.limits.max_seq_len;
  return static_cast<int64_t>(
             static_cast<double>(most_tokens + plan.limits.max_reqs * kv.block_size) *
             plan.memory.kv_bytes_per_token) +
         2 * kv.block_bytes + useful_state_bytes(plan);
}

KvPlan divided_kv_memory(const ModelPlan& plan) {
  return divide_kv_memory(plan.kv.spec, plan.memory.kv_cache, load_of(plan.limits));
}

Status plan_memory(const ModelRunnerOptions& options, const ModelLoading& loading,
                   const DecoderWeights& weights, const WeightPacking& packing,
                   const HostStream& stream, ModelPlan& plan) {
  plan_weights(options, loading, weights, packing, stream, plan);
  plan_workspace(options, weights, stream, plan);
  plan_kv_memory(options, plan);
  return check_memory(plan.memory);
}

}  // namespace quire
