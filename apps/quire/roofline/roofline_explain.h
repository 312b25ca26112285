// explain_step() says in words why a step takes what it takes: the arithmetic of its bound and
// prediction.
#pragma once

#include <string>
#include <string_view>

#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Returns several lines, each with its end. `title` names the step.
std::string explain_step(const CostModel& model, const StepShape& step, std::string_view title);

}  // namespace quire::roofline
