#include "exec/memory_plan.h"

#include <fmt/format.h>

namespace quire {
namespace {

std::string size_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.1f} KiB", value / 1024);
}

}  // namespace

void MemoryPlan::add(const MemoryPlan& part) {
  for (int64_t MemoryPlan::*const bytes :
       {&MemoryPlan::weights, &MemoryPlan::adapters, &MemoryPlan::vision, &MemoryPlan::activations,
        &MemoryPlan::linear_workspace, &MemoryPlan::attention_workspace, &MemoryPlan::logits,
        &MemoryPlan::moving_experts, &MemoryPlan::batch, &MemoryPlan::kv_cache,
        &MemoryPlan::block_bytes, &MemoryPlan::budget}) {
    this->*bytes += part.*bytes;
  }
  matrices.add(part.matrices);
  kv_bytes_per_token += part.kv_bytes_per_token;
}

std::string MemoryPlan::table() const {
  std::string text;
  const auto row = [&](std::string_view name, int64_t bytes, const std::string& note = {}) {
    text +=
        fmt::format("  {:<22}{:>12}{}{}\n", name, size_text(bytes), note.empty() ? "" : "  ", note);
  };
  row("weights", weights);
  if (adapters > 0) row("adapters", adapters);
  if (vision > 0) row("images or sources", vision);
  if (mapped_tables > 0) row("embeddings (mapped)", mapped_tables, "stay in the checkpoint file");
  row("activations", activations);
  row("linear workspace", linear_workspace);
  row("attention workspace", attention_workspace);
  if (hidden_rows > 0) row("hidden states", hidden_rows, "for the model that drafts");
  row("logits", logits);
  if (moving_experts > 0) row("experts on their way", moving_experts);
  if (graphs > 0) row("graphs", graphs);
  row("batch", batch);
  const int64_t states = kv_plan.num_state_blocks * kv_spec.state.block_bytes;
  if (block_bytes > 0) {
    const auto bytes = static_cast<double>(kv_cache - states);
    row("KV cache", kv_cache - states,
        fmt::format("{} blocks of {}, about {:.0f} tokens", (kv_cache - states) / block_bytes,
                    size_text(block_bytes),
                    kv_bytes_per_token > 0.0 ? bytes / kv_bytes_per_token : 0.0));
  }
  if (states > 0) {
    row("states", block_bytes > 0 ? states : kv_cache,
        fmt::format("{} blocks of {}, a snapshot every {} tokens", kv_plan.num_state_blocks,
                    size_text(kv_spec.state.block_bytes), kv_spec.state.block_size));
  }
  if (host_kv > 0) row("KV on its way", host_kv, "to and from files");
  if (num_replicas > 1)
    row("each replica", workspace() + kv_cache, fmt::format("{} share the weights", num_replicas));
  row("total", total(),
      budget > 0
          ? fmt::format("of {} allowed, {} are free", size_text(budget), size_text(free_memory))
          : fmt::format("of {} that are free", size_text(free_memory)));
  return text;
}

int64_t least_kv_bytes(const MemoryPlan& plan) {
  const int64_t state_bytes =
      plan.kv_spec.uses(KvPool::kState) ? plan.kv_spec.state.block_bytes : 0;
  // The states of running requests may fill at most half of the blocks beside those of attention.
  return 2 * plan.block_bytes + (plan.block_bytes > 0 ? 4 : 2) * state_bytes;
}

Status check_memory(const MemoryPlan& plan) {
  const int64_t least = least_kv_bytes(plan);
  const bool asked_for = plan.budget == 0;
  if (asked_for && plan.kv_cache < least) {
    return resource_exhausted("--kv-cache-memory: expected at least {} for two blocks, got {}",
                              size_text(least), size_text(plan.kv_cache));
  }
  if (plan.kv_cache < least) {
    return resource_exhausted(
        "memory: {} of {} that are free may be used; weights take {} and workspace {}, and the KV "
        "cache needs at least {}",
        size_text(plan.budget), size_text(plan.free_memory), size_text(plan.weights),
        size_text(plan.workspace()), size_text(least));
  }
  if (plan.total() > plan.free_memory) {
    return resource_exhausted(
        "memory: weights take {}, workspace {} and the KV cache {}, but only {} of memory are free",
        size_text(plan.weights), size_text(plan.workspace()), size_text(plan.kv_cache),
        size_text(plan.free_memory));
  }
  return {};
}

}  // namespace quire
