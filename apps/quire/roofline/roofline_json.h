// These functions return the figures of report() as JSON.
#pragma once

#include <boost/json/object.hpp>

#include "quire/roofline/roofline_report.h"

namespace quire::roofline {

// Returns model, hardware and memory, and the tables of decode steps and prompts.
boost::json::object steps_json(const CostModel& model, const ReportOptions& options);

// Returns the same, and the kernels of one decode and one prompt step, and what would make them
// faster.
boost::json::object report_json(const CostModel& model, const ReportOptions& options);

}  // namespace quire::roofline
