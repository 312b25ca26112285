// What the roofline says about a model on a device, as JSON: the figures of report().
#pragma once

#include <boost/json/object.hpp>

#include "quire/roofline/roofline_report.h"

namespace quire::roofline {

// Returns model, hardware and memory, and the tables of decode steps and prompts.
boost::json::object steps_json(const CostModel& model, const ReportOptions& options);

// Returns the same, with the kernels of one decode and one prompt step and what would help.
boost::json::object report_json(const CostModel& model, const ReportOptions& options);

}  // namespace quire::roofline
