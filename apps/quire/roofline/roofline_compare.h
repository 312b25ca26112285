// compare() puts models and devices side by side.
#pragma once

#include <string>
#include <vector>

#include "quire/roofline/roofline_report.h"
#include "roofline/model/cost_model.h"

namespace quire::roofline {

// There is one column per cost model, and at least one: limits, memory, tokens per second of decode
// steps and prompts, each with its ratio to the first column. The text has several lines, each with
// its end.
std::string compare(const std::vector<CostModel>& columns, const ReportOptions& options);

}  // namespace quire::roofline
