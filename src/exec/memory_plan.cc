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

std::string MemoryPlan::table() const {
  std::string text;
  const auto row = [&](std::string_view name, int64_t bytes, const std::string& note = {}) {
    text +=
        fmt::format("  {:<22}{:>12}{}{}\n", name, size_text(bytes), note.empty() ? "" : "  ", note);
  };
  row("weights", weights);
  if (mapped_tables > 0) row("embeddings (mapped)", mapped_tables, "stay in the checkpoint file");
  row("activations", activations);
  row("linear workspace", linear_workspace);
  row("attention workspace", attention_workspace);
  row("logits", logits);
  if (graphs > 0) row("graphs", graphs);
  row("batch", batch);
  const auto tokens =
      kv_bytes_per_token > 0.0 ? static_cast<double>(kv_cache) / kv_bytes_per_token : 0.0;
  row("KV cache", kv_cache,
      fmt::format("{} blocks of {}, about {:.0f} tokens", num_blocks(), size_text(block_bytes),
                  tokens));
  if (state_block_bytes > 0) row("states", state_block_bytes, "of one sequence, in the KV cache");
  row("total", weights + workspace() + kv_cache,
      budget > 0
          ? fmt::format("of {} allowed, {} are free", size_text(budget), size_text(free_memory))
          : fmt::format("of {} that are free", size_text(free_memory)));
  return text;
}

Status check_memory(const MemoryPlan& plan) {
  const int64_t least = 2 * (plan.block_bytes + plan.state_block_bytes);
  const int64_t others = plan.weights + plan.workspace();
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
  if (others + plan.kv_cache > plan.free_memory) {
    return resource_exhausted(
        "memory: weights take {}, workspace {} and the KV cache {}, but only {} of memory are free",
        size_text(plan.weights), size_text(plan.workspace()), size_text(plan.kv_cache),
        size_text(plan.free_memory));
  }
  return {};
}

}  // namespace quire
