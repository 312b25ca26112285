// Checks that the copies of KV blocks that a plan asks for are between blocks that exist.
#pragma once

#include <vector>

#include "base/result.h"
#include "core/kv_spec.h"
#include "core/step.h"

namespace quire {

// kInternal: a copy reads or writes the null block or a block that does not exist.
Status check_block_copies(const StepPlan& plan, const KvPlan& kv);
// Does the same for copies to and from host memory. The error is kUnavailable, since later plans
// rely on these copies (Executor::execute()).
Status check_host_copies(const std::vector<HostBlockCopy>& copies, const KvPlan& kv);

}  // namespace quire
