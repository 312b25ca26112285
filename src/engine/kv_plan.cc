#include "engine/kv_plan.h"

#include <algorithm>
#include <limits>

#include "kv/kv_manager.h"

namespace quire {
namespace {

Status check_spec(const KvSpec& spec) {
  if (spec.block_size < 1 || spec.block_bytes < 1 || spec.groups.empty()) {
    return invalid_argument(
        "KV spec: expected a positive block size, block bytes and a group, got {}, {} and {}",
        spec.block_size, spec.block_bytes, spec.groups.size());
  }
  return {};
}

Result<int32_t> count_blocks(const EngineOptions& options, const KvSpec& spec,
                             int64_t available_bytes) {
  if (options.num_blocks) {
    if (*options.num_blocks < 2) {
      return invalid_argument("number of KV blocks: expected at least 2, got {}",
                              *options.num_blocks);
    }
    return *options.num_blocks;
  }
  const int64_t bytes = options.kv_cache_bytes.value_or(available_bytes);
  const int64_t blocks =
      std::min<int64_t>(bytes / spec.block_bytes, std::numeric_limits<int32_t>::max());
  if (blocks < 2) {
    return resource_exhausted("KV cache memory: expected at least {} bytes for 2 blocks, got {}",
                              2 * spec.block_bytes, bytes);
  }
  return static_cast<int32_t>(blocks);
}

// The most tokens one request can have in `num_usable` blocks.
int32_t longest_fit(const KvManager& arithmetic, int32_t limit, int32_t num_usable) {
  int32_t fits = 0, too_long = limit;
  if (arithmetic.tables().blocks_for(limit) <= num_usable) return limit;
  while (too_long - fits > 1) {
    const int32_t middle = fits + (too_long - fits) / 2;
    (arithmetic.tables().blocks_for(middle) <= num_usable ? fits : too_long) = middle;
  }
  return fits;
}

}  // namespace

int32_t count_host_blocks(int64_t num_bytes, const KvSpec& spec) {
  const int64_t num_blocks = num_bytes / spec.block_bytes;
  if (num_blocks < 1) return 0;
  return static_cast<int32_t>(
      std::min<int64_t>(num_blocks + 1, std::numeric_limits<int32_t>::max()));
}

Result<KvSizing> plan_kv(const EngineOptions& options, const ExecutorInfo& model,
                         const KvSpec& spec, int64_t available_bytes) {
  QUIRE_RETURN_IF_ERROR(check_spec(spec));
  const int32_t wanted = options.scheduler.max_model_len;
  if (wanted < 0 || wanted == 1 || wanted > model.max_model_len) {
    return invalid_argument(
        "--max-model-len: expected 2 (a prompt and an answer of one token) to {} (the model's "
        "limit), got {}",
        model.max_model_len, wanted);
  }
  if (model.max_model_len < 2) {
    return invalid_argument(
        "the model's context: expected 2 tokens (a prompt and an answer of one) or more, got {}",
        model.max_model_len);
  }
  KvSizing sizing;
  QUIRE_ASSIGN_OR_RETURN(sizing.plan.num_blocks, count_blocks(options, spec, available_bytes));
  const int32_t num_usable = sizing.plan.num_blocks - 1;
  KvOptions kv = options.kv;
  kv.max_sequence_tokens = model.max_model_len;
  kv.max_step_tokens = options.scheduler.max_uncommitted_tokens();
  const KvManager arithmetic(spec, 2, kv);
  const int32_t limit = wanted > 0 ? wanted : model.max_model_len;
  const int32_t fits = longest_fit(arithmetic, limit, num_usable);
  if (fits < 2 || (wanted > 0 && fits < wanted)) {
    return resource_exhausted(
        "KV cache: one request of --max-model-len {} tokens needs {} blocks of {} bytes, but only "
        "{} fit, enough for {} tokens; lower --max-model-len or give the KV cache more memory",
        limit, arithmetic.tables().blocks_for(limit), spec.block_bytes, num_usable, fits);
  }
  sizing.max_model_len = fits;
  sizing.kv_bytes = int64_t{sizing.plan.num_blocks} * spec.block_bytes;
  sizing.max_concurrency =
      static_cast<double>(num_usable) / static_cast<double>(arithmetic.tables().blocks_for(fits));
  return sizing;
}

}  // namespace quire
