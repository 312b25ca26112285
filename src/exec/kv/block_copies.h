// Checks that the copies of KV blocks that a plan asks for are between blocks that exist.
#pragma once

#include "base/result.h"
#include "core/kv_spec.h"
#include "core/step.h"

namespace quire {

// kInternal: a copy reads or writes the null block or a block that does not exist.
Status check_block_copies(const StepPlan& plan, const KvPlan& kv);

}  // namespace quire
