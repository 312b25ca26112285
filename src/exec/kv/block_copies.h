// Whether the copies of KV blocks that a plan asks for are between blocks that exist.
#pragma once

#include "base/result.h"
#include "core/kv_spec.h"
#include "core/step.h"

namespace quire {

// Checks the plan's copies. kInternal: one copies from or to a block that does not exist, or to the
// null block.
Status check_block_copies(const StepPlan& plan, const KvPlan& kv);

}  // namespace quire
