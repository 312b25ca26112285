// Why a step takes what it takes: the arithmetic of its bound and prediction, in words.
#pragma once

#include <string>
#include <string_view>

#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Several lines, each with its end. `title` names the step.
std::string explain_step(const CostModel& model, const StepShape& step, std::string_view title);

}  // namespace quire::roofline
