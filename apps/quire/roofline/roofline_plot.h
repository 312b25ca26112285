// These functions draw the roofline.
#pragma once

#include <string>

#include "quire/roofline/roofline_report.h"
#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Returns an SVG: FLOP/byte across, TFLOP/s up, both logarithmic; the roof of each number format of
// the device, decode steps over batch and context, prompts over length. Each step has two dots, one
// on the roof (its bound) and one where it is predicted to be.
std::string roofline_svg(const CostModel& model, const ReportOptions& options);
// Returns the same in an HTML page with the text report below it.
std::string roofline_html(const CostModel& model, const ReportOptions& options);

}  // namespace quire::roofline
