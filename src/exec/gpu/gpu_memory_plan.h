// Divides a GPU's memory between weights, workspace and KV cache, by arithmetic on plain numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "exec/memory_plan.h"

namespace quire {

struct GpuMemoryRequest {
  int64_t total_bytes = 0;   // of the device
  int64_t free_bytes = 0;    // before anything was allocated
  double utilization = 0.9;  // share of `total_bytes` that this process and others may fill
  std::optional<int64_t> kv_cache_bytes = {};  // set by the user; else what is left
  int64_t useful_kv_bytes = 0;  // more blocks than all requests can fill at once are never needed
};

// Fills kv_cache, free_memory and budget of a plan whose other fields are set. When fewer than two
// blocks would fit, it fails with kResourceExhausted and a message that lists what takes how much.
Status plan_gpu_memory(const GpuMemoryRequest& request, MemoryPlan& plan);

}  // namespace quire
