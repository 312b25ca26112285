// These functions draw the roofline.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quire/roofline/roofline_report.h"
#include "roofline/model/cost_model.h"

namespace quire::roofline {

// Returns an SVG with FLOP/byte on the x axis and TFLOP/s on the y axis, both logarithmic. It shows
// the roof of each number format of the device with the bandwidth on the slope, decode steps by
// batch and context, and prompts by length. Each step has two dots: one on the roof (its bound) and
// one at its predicted time.
std::string roofline_svg(const CostModel& model, const ReportOptions& options);
// Returns an HTML page with the same SVG, the bars of time_plot.h and, below them, the text report.
std::string roofline_html(const CostModel& model, const ReportOptions& options);

// Draws the same for several models and devices in one SVG: decode steps of the first context, and
// prompts.
std::string compare_svg(const std::vector<CostModel>& columns, const ReportOptions& options);
std::string compare_html(const std::vector<CostModel>& columns, const ReportOptions& options,
                         std::string_view text);

}  // namespace quire::roofline
