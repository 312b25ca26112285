// Whether a StepResult answers its StepPlan: an executor that does not must not reach the
// scheduler's books.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/step.h"

namespace quire {

// kInternal with what was expected and what came: entries in plan order, token ids inside the
// vocabulary, at most one logprob entry per token.
Status check_step_result(const StepPlan& plan, const StepResult& result, int32_t vocab_size);

}  // namespace quire
