#include "core/kv_division.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

int64_t num_groups(const KvSpec& spec, KvPool pool) {
  return std::count_if(spec.groups.begin(), spec.groups.end(),
                       [pool](const KvGroupSpec& group) { return group.pool() == pool; });
}

int32_t blocks_in(int64_t bytes, int64_t block_bytes) {
  const int64_t blocks = block_bytes > 0 ? bytes / block_bytes : 0;
  if (blocks < 2) return 0;
  return static_cast<int32_t>(std::min<int64_t>(blocks, std::numeric_limits<int32_t>::max()));
}

}  // namespace

int64_t num_running_states(const KvSpec& spec, const KvLoad& load) {
  const int64_t per_group = 2 * load.max_num_seqs + load.max_step_tokens / spec.state.block_size;
  return 1 + per_group * num_groups(spec, KvPool::kState);
}

KvPlan divide_kv_memory(const KvSpec& spec, int64_t bytes, const KvLoad& load) {
  KvPlan plan;
  if (!spec.uses(KvPool::kState)) {
    plan.num_blocks = blocks_in(bytes, spec.block_bytes);
    return plan;
  }
  if (!spec.uses(KvPool::kAttention)) {
    plan.num_state_blocks = blocks_in(bytes, spec.state.block_bytes);
    return plan;
  }
  const int64_t running =
      std::min(num_running_states(spec, load) * spec.state.block_bytes, bytes / 2);
  const auto bytes_per_token = [&spec](KvPool pool) {
    return static_cast<double>(spec.pool(pool).block_bytes * num_groups(spec, pool)) /
           spec.pool(pool).block_size;
  };
  const double attention = bytes_per_token(KvPool::kAttention);
  const double share = attention / (attention + bytes_per_token(KvPool::kState));
  const auto attention_bytes = static_cast<int64_t>(share * static_cast<double>(bytes - running));
  plan.num_blocks = blocks_in(attention_bytes, spec.block_bytes);
  plan.num_state_blocks = blocks_in(bytes - attention_bytes, spec.state.block_bytes);
  return plan;
}

int64_t kv_plan_bytes(const KvSpec& spec, const KvPlan& plan) {
  return plan.num_blocks * spec.block_bytes + plan.num_state_blocks * spec.state.block_bytes;
}

}  // namespace quire
