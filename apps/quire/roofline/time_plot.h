// time_svg() draws where the time of steps goes, kernel by kernel.
#pragma once

#include <string>

#include "quire/roofline/roofline_report.h"
#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Returns an SVG with one bar for each decode batch of the first context and for each prompt. A bar
// is the whole time of the step, divided among its kernels by their shares; the time itself stands
// beside it.
std::string time_svg(const CostModel& model, const ReportOptions& options);

}  // namespace quire::roofline
