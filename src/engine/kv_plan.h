// Computes how many KV blocks an engine gets, before anything is allocated.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/executor.h"
#include "engine/engine_options.h"

namespace quire {

struct KvSizing {
  KvPlan plan;
  int32_t max_model_len = 0;   // resolved
  int64_t kv_bytes = 0;        // of all blocks of all pools
  double max_concurrency = 0;  // requests of max_model_len tokens that fit at once
};

// Resolves blocks and max_model_len from the options, the model and the available memory. Errors:
// kInvalidArgument names the option that is out of bounds; kResourceExhausted says what would fit.
Result<KvSizing> plan_kv(const EngineOptions& options, const ExecutorInfo& model,
                         const KvSpec& spec, int64_t available_bytes);

// Sets the blocks of host memory, block 0 included, that num_bytes hold; 0 if they do not hold one
// of each pool in use. States get a quarter of the bytes if there is attention too.
void add_host_blocks(int64_t num_bytes, const KvSpec& spec, KvPlan& plan);

}  // namespace quire
