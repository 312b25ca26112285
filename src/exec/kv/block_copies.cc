#include "exec/kv/block_copies.h"

namespace quire {

Status check_block_copies(const StepPlan& plan, const KvPlan& kv) {
  for (const BlockCopy& copy : plan.block_copies) {
    const int32_t num_blocks = kv.count(copy.pool);
    if (copy.source.value < 0 || copy.source.value >= num_blocks || copy.destination.value <= 0 ||
        copy.destination.value >= num_blocks) {
      return internal_error("step plan: copy of block {} to {}: out of range", copy.source,
                            copy.destination);
    }
  }
  return {};
}

}  // namespace quire
