#include "engine/kv_plan.h"

#include <algorithm>
#include <limits>

#include "core/kv_division.h"
#include "kv/tables/block_sizing.h"

namespace quire {
namespace {

Status check_spec(const KvSpec& spec) {
  if (spec.groups.empty()) return invalid_argument("KV spec: expected a group, got none");
  for (const KvPool name : {KvPool::kAttention, KvPool::kState}) {
    const KvPoolSpec pool = spec.pool(name);
    if (!spec.uses(name) || (pool.block_size >= 1 && pool.block_bytes >= 1)) continue;
    return invalid_argument("KV spec: expected positive block size and bytes of {}, got {} and {}",
                            to_string(name), pool.block_size, pool.block_bytes);
  }
  return {};
}

Status check_options(const EngineOptions& options, const KvSpec& spec) {
  if (options.num_blocks && *options.num_blocks < 2) {
    return invalid_argument("number of KV blocks: expected at least 2, got {}",
                            *options.num_blocks);
  }
  if (!spec.uses(KvPool::kState)) return {};
  if (options.scheduler.num_speculative_tokens > 0) {
    return invalid_argument(
        "speculative decoding: expected none for this model, whose layers keep a state that a "
        "refused draft would have changed; got {} tokens per step",
        options.scheduler.num_speculative_tokens);
  }
  if (options.kv_offload_bytes > 0 && !options.open_kv_files) {
    return invalid_argument(
        "KV offloading: expected none for this model, whose layers keep states, which stay in the "
        "device's memory; got {} bytes of host memory",
        options.kv_offload_bytes);
  }
  return {};
}

Result<KvPlan> count_blocks(const EngineOptions& options, const KvSpec& spec,
                            int64_t available_bytes) {
  const int64_t bytes = options.kv_cache_bytes.value_or(available_bytes);
  const KvLoad load{.max_num_seqs = options.scheduler.max_running(),
                    .max_step_tokens = options.scheduler.max_num_batched_tokens};
  KvPlan plan = divide_kv_memory(spec, bytes, load);
  if (options.num_blocks && spec.uses(KvPool::kAttention)) plan.num_blocks = *options.num_blocks;
  for (const KvPool name : {KvPool::kAttention, KvPool::kState}) {
    if (!spec.uses(name) || plan.count(name) >= 2) continue;
    return resource_exhausted("KV cache memory: expected room for 2 {} blocks of {} bytes, got {}",
                              to_string(name), spec.pool(name).block_bytes, bytes);
  }
  return plan;
}

// Returns how many requests of num_tokens tokens fit at once.
double num_fitting(const BlockSizing& blocks, int64_t num_tokens, const KvPlan& plan) {
  const BlockCounts needed = blocks.blocks_for(num_tokens);
  double fits = std::numeric_limits<double>::max();
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (needed[pool] == 0) continue;
    fits = std::min(fits,
                    static_cast<double>(plan.count(pool) - 1) / static_cast<double>(needed[pool]));
  }
  return fits;
}

// Returns the most tokens that one request can have in the blocks of the plan.
int32_t longest_fit(const BlockSizing& blocks, int32_t limit, const KvPlan& plan) {
  int32_t fits = 0, too_long = limit;
  if (num_fitting(blocks, limit, plan) >= 1) return limit;
  while (too_long - fits > 1) {
    const int32_t middle = fits + (too_long - fits) / 2;
    (num_fitting(blocks, middle, plan) >= 1 ? fits : too_long) = middle;
  }
  return fits;
}

Status too_long(const BlockSizing& blocks, const KvSpec& spec, int32_t limit, int32_t fits,
                const KvPlan& plan) {
  const BlockCounts needed = blocks.blocks_for(limit);
  const bool states = needed[KvPool::kAttention] < plan.num_blocks || plan.num_blocks == 0;
  const KvPool pool = states ? KvPool::kState : KvPool::kAttention;
  return resource_exhausted(
      "KV cache: one request of --max-model-len {} tokens needs {} {}blocks of {} bytes, but only "
      "{} fit, enough for {} tokens; lower --max-model-len or give the KV cache more memory",
      limit, needed[pool], states ? "state " : "", spec.pool(pool).block_bytes,
      plan.count(pool) - 1, fits);
}

}  // namespace

void add_host_blocks(int64_t num_bytes, const KvSpec& spec, KvPlan& plan) {
  const auto count = [](int64_t bytes, int64_t block_bytes) {
    const int64_t num_blocks = block_bytes > 0 ? bytes / block_bytes : 0;
    return static_cast<int32_t>(
        std::min<int64_t>(num_blocks + 1, std::numeric_limits<int32_t>::max()));
  };
  constexpr int64_t kShareOfStates = 4;
  int64_t attention_bytes = spec.uses(KvPool::kAttention) ? num_bytes : 0;
  if (spec.uses(KvPool::kState)) {
    const int64_t part = attention_bytes > 0 ? num_bytes / kShareOfStates : num_bytes;
    // States get room for two blocks, as far as half of the memory allows: one block is copied out
    // while another one is copied in.
    const int64_t bytes = std::max(part, std::min(num_bytes / 2, 2 * spec.state.block_bytes));
    attention_bytes = std::max<int64_t>(0, attention_bytes - bytes);
    plan.num_host_state_blocks = count(bytes, spec.state.block_bytes);
  }
  if (spec.uses(KvPool::kAttention))
    plan.num_host_blocks = count(attention_bytes, spec.block_bytes);
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (spec.uses(pool) && plan.num_host(pool) < 2)
      plan.num_host_blocks = plan.num_host_state_blocks = 0;
  }
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
  QUIRE_RETURN_IF_ERROR(check_options(options, spec));
  KvSizing sizing;
  QUIRE_ASSIGN_OR_RETURN(sizing.plan, count_blocks(options, spec, available_bytes));
  KvOptions kv = options.kv;
  kv.max_sequence_tokens = model.max_model_len;
  kv.max_step_tokens = options.scheduler.max_uncommitted_tokens();
  const BlockSizing blocks(spec, kv);
  const int32_t limit = wanted > 0 ? wanted : model.max_model_len;
  const int32_t fits = longest_fit(blocks, limit, sizing.plan);
  if (fits < 2 || (wanted > 0 && fits < wanted))
    return too_long(blocks, spec, limit, fits, sizing.plan);
  sizing.max_model_len = fits;
  sizing.kv_bytes = kv_plan_bytes(spec, sizing.plan);
  sizing.max_concurrency = num_fitting(blocks, fits, sizing.plan);
  return sizing;
}

}  // namespace quire
