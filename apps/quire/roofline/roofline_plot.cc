#include "quire/roofline/roofline_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

namespace quire::roofline {
namespace {

constexpr double kWidth = 860, kHeight = 520;
constexpr double kLeft = 70, kRight = 190, kTop = 40, kBottom = 56;
constexpr std::string_view kColors[] = {"#2563eb", "#16a34a", "#d97706", "#9333ea", "#dc2626"};

struct Point {
  double intensity = 0;  // FLOP/byte
  double flops_per_s = 0;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

class Plot {
 public:
  Plot(double min_x, double max_x, double min_y, double max_y)
      : min_x_(std::floor(std::log10(min_x))),
        max_x_(std::ceil(std::log10(max_x))),
        min_y_(std::floor(std::log10(min_y))),
        max_y_(std::ceil(std::log10(max_y))) {}

  double x(double value) const {
    const double f = (std::log10(std::max(value, 1e-12)) - min_x_) / (max_x_ - min_x_);
    return kLeft + std::clamp(f, 0.0, 1.0) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double f = (std::log10(std::max(value, 1e-12)) - min_y_) / (max_y_ - min_y_);
    return kHeight - kBottom - std::clamp(f, 0.0, 1.0) * (kHeight - kTop - kBottom);
  }
  double low_x() const { return std::pow(10, min_x_); }
  double low_y() const { return std::pow(10, min_y_); }
  double high_x() const { return std::pow(10, max_x_); }

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_.push_back('\n');
  }

  void axes() {
    for (double e = min_x_; e <= max_x_; ++e) {
      const double at = x(std::pow(10, e));
      add("<line class='grid' x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}'/>", at, kTop,
          kHeight - kBottom);
      add("<text x='{:.1f}' y='{}' text-anchor='middle'>{:g}</text>", at, kHeight - kBottom + 18,
          std::pow(10, e));
    }
    for (double e = min_y_; e <= max_y_; ++e) {
      const double at = y(std::pow(10, e));
      add("<line class='grid' x1='{0}' y1='{2:.1f}' x2='{1}' y2='{2:.1f}'/>", kLeft,
          kWidth - kRight, at);
      add("<text x='{}' y='{:.1f}' text-anchor='end'>{:g}</text>", kLeft - 8, at + 4,
          std::pow(10, e - 12));
    }
    add("<text x='{}' y='{}' text-anchor='middle'>FLOP per byte moved</text>",
        (kLeft + kWidth - kRight) / 2, kHeight - 14);
    add("<text transform='translate(18 {}) rotate(-90)' text-anchor='middle'>TFLOP/s</text>",
        kHeight / 2);
  }

  std::string svg(std::string_view title) const {
    return fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
        "role='img' font-family='system-ui, sans-serif' font-size='12' fill='#334155'>\n"
        "<style>.grid{{stroke:#e2e8f0}}.roof{{fill:none;stroke:#0f172a;stroke-width:2}}"
        ".gap{{stroke-dasharray:2 3}}</style>\n"
        "<rect width='{0}' height='{1}' fill='#ffffff'/>\n"
        "<text x='{2}' y='22' font-size='15' font-weight='600'>{3}</text>\n{4}</svg>\n",
        kWidth, kHeight, kLeft, escaped(title), body_);
  }

 private:
  double min_x_, max_x_, min_y_, max_y_;
  std::string body_;
};

struct Step {
  std::string label;
  Point bound;
  Point predicted;
};

Step make_step(const CostModel& model, std::string label, const StepShape& shape) {
  const StepCost cost = model.predict(shape);
  const double intensity = cost.flops / (cost.read_bytes + cost.write_bytes);
  return {std::move(label),
          {intensity, cost.flops / cost.bound_us * 1e6},
          {intensity, cost.flops / cost.total_us * 1e6}};
}

void add_roofs(Plot& plot, const Hardware& hardware) {
  for (int i = 0; i < kNumMathTypes; ++i) {
    const double peak = hardware.peak_flops[static_cast<size_t>(i)];
    if (peak <= 0) continue;
    const double bend = peak / hardware.memory_bytes_per_s;
    const double begin = std::max(plot.low_x(), plot.low_y() / hardware.memory_bytes_per_s);
    plot.add("<path class='roof' d='M{:.1f} {:.1f} L{:.1f} {:.1f} L{:.1f} {:.1f}'/>", plot.x(begin),
             plot.y(begin * hardware.memory_bytes_per_s), plot.x(bend), plot.y(peak),
             plot.x(plot.high_x()), plot.y(peak));
    plot.add("<text x='{}' y='{:.1f}'>{} {:.4g}</text>", kWidth - kRight + 6, plot.y(peak) + 4,
             to_string(static_cast<MathType>(i)), peak * 1e-12);
  }
}

void add_series(Plot& plot, const std::vector<Step>& steps, std::string_view color) {
  for (const Step& step : steps) {
    const double x = plot.x(step.bound.intensity);
    const double bound = plot.y(step.bound.flops_per_s);
    const double predicted = plot.y(step.predicted.flops_per_s);
    plot.add("<line class='gap' x1='{0:.1f}' y1='{1:.1f}' x2='{0:.1f}' y2='{2:.1f}' stroke='{3}'/>",
             x, bound, predicted, color);
    plot.add("<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='none' stroke='{}'/>", x, bound, color);
    plot.add(
        "<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='{}'><title>{}: {:.3g} TFLOP/s predicted, "
        "{:.3g} at most</title></circle>",
        x, predicted, color, escaped(step.label), step.predicted.flops_per_s * 1e-12,
        step.bound.flops_per_s * 1e-12);
  }
}

}  // namespace

std::string roofline_svg(const CostModel& model, const ReportOptions& options) {
  std::vector<std::pair<std::string, std::vector<Step>>> series;
  for (const int32_t context : options.contexts) {
    std::vector<Step> steps;
    for (const int32_t batch : options.batch_sizes) {
      steps.push_back(make_step(model, fmt::format("decode, batch {}, context {}", batch, context),
                                decode_step(model, batch, context)));
    }
    series.emplace_back(fmt::format("decode, context {}", context), std::move(steps));
  }
  std::vector<Step> prompts;
  for (const int32_t tokens : options.prompts) {
    prompts.push_back(
        make_step(model, fmt::format("prompt of {} tokens", tokens), prompt_step(model, tokens)));
  }
  series.emplace_back("prompts", std::move(prompts));

  const Hardware& hardware = model.hardware();
  const double peak = *std::max_element(hardware.peak_flops.begin(), hardware.peak_flops.end());
  double least = peak;
  double most_intense = 10 * peak / hardware.memory_bytes_per_s;
  for (const auto& [name, steps] : series) {
    for (const Step& step : steps) {
      least = std::min(least, step.predicted.flops_per_s);
      most_intense = std::max(most_intense, step.bound.intensity);
    }
  }
  Plot plot(0.1, most_intense, least, peak);
  plot.axes();
  add_roofs(plot, hardware);
  double legend = kTop + 260;
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string_view color = kColors[i % std::size(kColors)];
    add_series(plot, series[i].second, color);
    plot.add("<circle cx='{}' cy='{}' r='4' fill='{}'/><text x='{}' y='{}'>{}</text>",
             kWidth - kRight + 12, legend - 4, color, kWidth - kRight + 22, legend,
             series[i].first);
    legend += 18;
  }
  plot.add("<text x='{}' y='{}'>ring: bound, dot: predicted</text>", kWidth - kRight + 6, legend);
  return plot.svg(fmt::format("{} on {}", model.model().name, hardware.name));
}

std::string roofline_html(const CostModel& model, const ReportOptions& options) {
  return fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>Roofline: {0}</title>\n"
      "<style>body{{font:15px system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;"
      "color:#0f172a}}pre{{background:#f8fafc;border:1px solid "
      "#e2e8f0;border-radius:8px;padding:1em;"
      "overflow-x:auto;font-size:12px}}svg{{max-width:100%;height:auto}}</style></head>\n"
      "<body><h1>Roofline: {0} on {1}</h1>\n{2}\n<pre>{3}</pre></body></html>\n",
      escaped(model.model().name), escaped(model.hardware().name), roofline_svg(model, options),
      escaped(report(model, options)));
}

}  // namespace quire::roofline
