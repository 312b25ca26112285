// Checks whether a StepResult matches its StepPlan. A result that does not must not reach the
// scheduler.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/step.h"

namespace quire {

// Checks that entries are in plan order, token ids are inside the vocabulary, and there is at most
// one logprob entry per token. kInternal says what was expected and what came.
Status check_step_result(const StepPlan& plan, const StepResult& result, int32_t vocab_size);

}  // namespace quire
