// explain_step() explains in words how long a step takes: the arithmetic of its bound and of its
// predicted time.
#pragma once

#include <string>
#include <string_view>

#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Returns several lines, each of which ends with a line break. `title` names the step.
std::string explain_step(const CostModel& model, const StepShape& step, std::string_view title);

}  // namespace quire::roofline
