#include "exec/gpu/gpu_memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace quire {
namespace {

// Memory that the driver takes beside our allocations: kernels' code, stacks, library handles.
constexpr int64_t kDriverBytes = int64_t{512} << 20;

}  // namespace

Status plan_gpu_memory(const GpuMemoryRequest& request, MemoryPlan& plan) {
  const int64_t used_by_others = request.total_bytes - request.free_bytes;
  const auto allowed =
      static_cast<int64_t>(static_cast<double>(request.total_bytes) * request.utilization);
  plan.free_memory = request.free_bytes;
  plan.budget = request.kv_cache_bytes ? 0 : std::max<int64_t>(0, allowed - used_by_others);
  const int64_t rest = plan.budget - kDriverBytes - plan.weights - plan.adapters - plan.workspace();
  plan.kv_cache = request.kv_cache_bytes.value_or(std::min(request.useful_kv_bytes, rest));
  constexpr int64_t kMiB = int64_t{1} << 20;
  const std::string adapters =
      plan.adapters > 0 ? fmt::format(", adapters {} MiB", plan.adapters / kMiB) : "";
  const int64_t in_all = plan.weights + plan.adapters + plan.workspace() + plan.kv_cache;
  if (request.kv_cache_bytes && in_all > request.free_bytes) {
    return resource_exhausted(
        "GPU memory: weights take {} MiB{}, workspace {} MiB and the KV cache that "
        "was asked for {} MiB; {} MiB are free",
        plan.weights / kMiB, adapters, plan.workspace() / kMiB, plan.kv_cache / kMiB,
        request.free_bytes / kMiB);
  }
  if (plan.kv_cache >= least_kv_bytes(plan)) return {};
  const int64_t needed = least_kv_bytes(plan) / kMiB + 1;
  if (request.kv_cache_bytes) {
    return resource_exhausted(
        "GPU memory: a KV cache of {} MiB was asked for, at least {} MiB are "
        "needed for two blocks",
        plan.kv_cache / kMiB, needed);
  }
  return resource_exhausted(
      "GPU memory: of {} MiB, {} MiB may be used (gpu-memory-utilization {}, {} MiB used by "
      "others); weights take {} MiB{}, workspace {} MiB and the driver {} MiB, which "
      "leaves {} MiB for the KV cache: at least {} MiB are needed",
      request.total_bytes / kMiB, plan.budget / kMiB, request.utilization, used_by_others / kMiB,
      plan.weights / kMiB, adapters, plan.workspace() / kMiB, kDriverBytes / kMiB,
      std::max<int64_t>(0, rest) / kMiB, needed);
}

}  // namespace quire
