// compare() shows models and devices side by side.
#pragma once

#include <string>
#include <vector>

#include "quire/roofline/roofline_report.h"
#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Returns a table with one column per cost model, of which there must be at least one. Its rows are
// limits, memory, and tokens per second of decode steps and prompts, each with its ratio to the
// first column. The text has several lines, and each ends with a line break.
std::string compare(const std::vector<CostModel>& columns, const ReportOptions& options);

}  // namespace quire::roofline
