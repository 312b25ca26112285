// These functions draw the roofline.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quire/roofline/roofline_report.h"
#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Returns an SVG: FLOP/byte across, TFLOP/s up, both logarithmic; the roof of each number format of
// the device with its bandwidth on the slope, decode steps over batch and context, prompts over
// length. Each step has two dots, one on the roof (its bound) and one where it is predicted to be.
std::string roofline_svg(const CostModel& model, const ReportOptions& options);
// Returns the same in an HTML page with where the time goes (time_plot.h) and the text report below.
std::string roofline_html(const CostModel& model, const ReportOptions& options);

// Draws the same for several models and devices in one picture: decodes of the first context, and
// prompts.
std::string compare_svg(const std::vector<CostModel>& columns, const ReportOptions& options);
std::string compare_html(const std::vector<CostModel>& columns, const ReportOptions& options,
                         std::string_view text);

}  // namespace quire::roofline
