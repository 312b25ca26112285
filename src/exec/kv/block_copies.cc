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

Status check_host_copies(const std::vector<HostBlockCopy>& copies, const KvPlan& kv) {
  for (const HostBlockCopy& copy : copies) {
    if (copy.block.value <= 0 || copy.block.value >= kv.count(copy.pool) ||
        copy.host_block.value <= 0 || copy.host_block.value >= kv.num_host(copy.pool)) {
      return unavailable("step plan: copy of {} block {} to or from host block {}: out of range",
                         to_string(copy.pool), copy.block, copy.host_block);
    }
  }
  return {};
}

}  // namespace quire
