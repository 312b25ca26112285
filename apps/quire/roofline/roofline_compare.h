// Models and devices side by side.
#pragma once

#include <string>
#include <vector>

#include "quire/roofline/roofline_report.h"
#include "roofline/model/cost_model.h"

namespace quire::roofline {

// One column per cost model: limits, memory, tokens per second of decode steps and prompts, each
// with its ratio to the first column. At least one column. Several lines, each with its end.
std::string compare(const std::vector<CostModel>& columns, const ReportOptions& options);

}  // namespace quire::roofline
