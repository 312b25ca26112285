#include "quire/roofline/time_plot.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "quire/roofline/canvas.h"
#include "quire/roofline/roofline_text.h"

namespace quire::roofline {
namespace {

constexpr double kWidth = 860, kLeft = 150, kRight = 110, kTop = 40, kBar = 18, kGap = 8;
constexpr double kLegendRow = 18, kLegendColumn = 170;
constexpr int kLegendColumns = 4;

struct Bar {
  std::string label;
  std::array<double, kNumKernels> us{};
  double total_us = 0;
};

Bar make_bar(const CostModel& model, std::string label, const StepShape& shape) {
  Bar bar{.label = std::move(label), .us = {}};
  const auto costs = model.explain(shape);
  for (size_t k = 0; k < costs.size(); ++k) {
    bar.us[k] = costs[k].predicted_us;
    bar.total_us += bar.us[k];
  }
  return bar;
}

}  // namespace

std::string time_svg(const CostModel& model, const ReportOptions& options) {
  std::vector<Bar> bars;
  const int32_t context = options.contexts.front();
  for (const int32_t batch : options.batch_sizes) {
    bars.push_back(make_bar(model, fmt::format("decode {} x {}", batch, context),
                            decode_step(model, batch, context)));
  }
  for (const int32_t tokens : options.prompts) {
    bars.push_back(make_bar(model, fmt::format("prompt {}", tokens), prompt_step(model, tokens)));
  }
  std::string body;
  const auto add = [&body]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body), format, std::forward<Args>(args)...);
  };
  std::array<bool, kNumKernels> used{};
  double y = kTop;
  for (const Bar& bar : bars) {
    add("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n", kLeft - 8, y + 13, bar.label);
    double x = kLeft;
    for (size_t k = 0; k < bar.us.size(); ++k) {
      if (bar.us[k] <= 0) continue;
      used[k] = true;
      const double width = bar.us[k] / bar.total_us * (kWidth - kLeft - kRight);
      add("<rect x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{}' fill='{}'{}><title>{}: {} "
          "({:.1f} %)</title></rect>\n",
          x, y, width, kBar, series_color(k), k >= 8 ? " fill-opacity='0.55'" : "",
          to_string(static_cast<Kernel>(k)), time_text(bar.us[k]), 100 * bar.us[k] / bar.total_us);
      x += width;
    }
    add("<text x='{}' y='{:.1f}'>{}</text>\n", kWidth - kRight + 8, y + 13,
        time_text(bar.total_us));
    y += kBar + kGap;
  }
  int entry = 0;
  for (size_t k = 0; k < used.size(); ++k) {
    if (!used[k]) continue;
    const double left = 20 + (entry % kLegendColumns) * kLegendColumn;
    const double top = y + 10 + (entry / kLegendColumns) * kLegendRow;
    add("<rect x='{0}' y='{1:.1f}' width='10' height='10' fill='{2}'{3}/><text x='{4}' "
        "y='{5:.1f}'>{6}</text>\n",
        left, top, series_color(k), k >= 8 ? " fill-opacity='0.55'" : "", left + 16, top + 9,
        to_string(static_cast<Kernel>(k)));
    ++entry;
  }
  const double height = y + 24 + ((entry + kLegendColumns - 1) / kLegendColumns) * kLegendRow;
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1:.0f}' width='{0}' "
      "height='{1:.0f}' role='img' font-family='system-ui, sans-serif' font-size='12' "
      "fill='#334155'>\n<rect width='{0}' height='{1:.0f}' fill='#ffffff'/>\n<text x='20' y='22' "
      "font-size='15' font-weight='600'>Where the time goes</text>\n{2}</svg>\n",
      kWidth, height, body);
}

}  // namespace quire::roofline
