#include "ranks/stage_memory.h"

#include <algorithm>

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
