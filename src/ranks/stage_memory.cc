#include "ranks/stage_memory.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/threads/cpu_topology.h"
#include "base/threads/thread_share.h"
#include "comm/rank_group.h"

namespace quire {

double share_of_blocks(const KvSpec& part, const KvSpec& whole) {
  double share = 0;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (!whole.uses(pool)) continue;
    share = std::max(share, static_cast<double>(part.pool(pool).block_bytes) /
                                static_cast<double>(whole.pool(pool).block_bytes));
  }
  return share;
}

int64_t bytes_of_share(int64_t whole_bytes, double share) {
  return static_cast<int64_t>(static_cast<double>(whole_bytes) * share) + 1;
}

int64_t least_room(std::span<const PartRoom> parts, const KvSpec& whole) {
  QUIRE_CHECK(!parts.empty(), "expected a part of a model, got none");
  std::optional<double> least;
  int64_t least_bytes = parts.front().available_bytes;
  for (const PartRoom& part : parts) {
    const double share = share_of_blocks(part.spec, whole);
    const auto bytes = static_cast<double>(part.available_bytes);
    if (share > 0) least = std::min(bytes / share, least.value_or(bytes / share));
    least_bytes = std::min(least_bytes, part.available_bytes);
  }
  return least ? static_cast<int64_t>(*least) : least_bytes;
}

ModelRunnerOptions part_of_machine(const ModelRunnerOptions& whole, int index, int count) {
  ModelRunnerOptions options = whole;
  options.threads = share_of_threads(whole.threads, count);
  options.cpus = cpus_of_part(whole.cpus, index, count);
  options.memory_utilization = whole.memory_utilization / count;
  options.host_kv_bytes = whole.host_kv_bytes / count;
  return options;
}

KvLayout layout_of(const ModelPlan& plan, int num_ranks, const RowRange& kept) {
  const KvSpec& kv = plan.kv.spec;
  return make_kv_layout(plan.whole, kv.block_size, plan.kv_dtype, kv.state.block_size,
                        {.share = {0, num_ranks}, .layers = kept});
}

Status check_pipeline(const ModelPlan& plan, int num_stages) {
  QUIRE_RETURN_IF_ERROR(check_stages(plan.whole, num_stages));
  if (!plan.vision || num_stages == 1) return {};
  return unimplemented("--pipeline-parallel-size: expected 1 for a model that reads images, got {}",
                       num_stages);
}

}  // namespace quire
