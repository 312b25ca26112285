#include "exec/gpu_memory_plan.h"

#include <algorithm>

namespace quire {
namespace {

// What the driver takes for itself beside our allocations: kernels' code, stacks, library handles.
constexpr int64_t kDriverBytes = int64_t{512} << 20;

}  // namespace

Status plan_gpu_memory(const GpuMemoryRequest& request, MemoryPlan& plan) {
  const int64_t used_by_others = request.total_bytes - request.free_bytes;
  const auto allowed =
      static_cast<int64_t>(static_cast<double>(request.total_bytes) * request.utilization);
  plan.free_memory = request.free_bytes;
  plan.budget = request.kv_cache_bytes ? 0 : std::max<int64_t>(0, allowed - used_by_others);
  const int64_t rest = plan.budget - kDriverBytes - plan.weights - plan.workspace();
  plan.kv_cache = request.kv_cache_bytes.value_or(std::min(request.useful_kv_bytes, rest));
  if (plan.kv_cache >= 2 * plan.block_bytes) return {};
  constexpr int64_t kMiB = int64_t{1} << 20;
  return resource_exhausted(
      "GPU memory: weights take {} MiB and workspace {} MiB; that leaves {} MiB for the KV cache, "
      "which needs at least {} MiB",
      plan.weights / kMiB, plan.workspace() / kMiB, plan.kv_cache / kMiB,
      2 * plan.block_bytes / kMiB + 1);
}

}  // namespace quire
