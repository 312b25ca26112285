// time_svg() draws where the time of steps goes, kernel by kernel.
#pragma once

#include <string>

#include "quire/roofline/roofline_report.h"
#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Returns an SVG with a bar for each decode batch of the first context and for each prompt, stacked by
// kernel and as long as its time is of the whole, with the time of the step beside it.
std::string time_svg(const CostModel& model, const ReportOptions& options);

}  // namespace quire::roofline
