#include "quire/roofline/roofline_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "quire/roofline/canvas.h"
#include "quire/roofline/roofline_text.h"
#include "quire/roofline/time_plot.h"

namespace quire::roofline {
namespace {

struct Point {
  double intensity = 0;  // FLOP/byte
  double flops_per_s = 0;
};

struct Step {
  std::string label;
  std::string size;  // beside the dot: the batch, or the tokens of the prompt
  Point bound;
  Point predicted;
};

struct Series {
  std::string name;
  std::vector<Step> steps;
};

Step make_step(const CostModel& model, std::string label, int32_t size, const StepShape& shape) {
  const StepCost cost = model.predict(shape);
  const double intensity = cost.flops / (cost.read_bytes + cost.write_bytes);
  return {std::move(label),
          fmt::format("{}", size),
          {intensity, cost.flops / cost.bound_us * 1e6},
          {intensity, cost.flops / cost.total_us * 1e6}};
}

Series decode_series(const CostModel& model, const ReportOptions& options, int32_t context,
                     const std::string& name) {
  Series series{.name = name, .steps = {}};
  for (const int32_t batch : options.batch_sizes) {
    series.steps.push_back(make_step(model,
                                     fmt::format("decode, batch {}, context {}", batch, context),
                                     batch, decode_step(model, batch, context)));
  }
  return series;
}

Series prompt_series(const CostModel& model, const ReportOptions& options,
                     const std::string& name) {
  Series series{.name = name, .steps = {}};
  for (const int32_t tokens : options.prompts) {
    series.steps.push_back(make_step(model, fmt::format("prompt of {} tokens", tokens), tokens,
                                     prompt_step(model, tokens)));
  }
  return series;
}

// A RoofLabel is the text at the right end of a horizontal part of the roof.
struct RoofLabel {
  double y = 0;
  double peak = 0;
  std::string formats;
  std::string_view color;
};

// Adds one label for each peak of a device. Number formats with the same peak share a label.
void add_roof_labels(const Canvas& canvas, const Hardware& hardware, std::string_view color,
                     std::vector<RoofLabel>& labels) {
  const size_t first = labels.size();
  for (int i = 0; i < kNumMathTypes; ++i) {
    const double peak = hardware.peak_flops[static_cast<size_t>(i)];
    if (peak <= 0) continue;
    const std::string_view format = to_string(static_cast<MathType>(i));
    const auto same =
        std::find_if(labels.begin() + static_cast<std::ptrdiff_t>(first), labels.end(),
                     [peak](const RoofLabel& l) { return l.peak == peak; });
    if (same != labels.end()) {
      same->formats += fmt::format(", {}", format);
    } else {
      labels.push_back(
          {.y = canvas.y(peak), .peak = peak, .formats = std::string(format), .color = color});
    }
  }
}

// Writes the labels from top to bottom, and moves a label down where it would cover the one above.
void write_roof_labels(Canvas& canvas, std::vector<RoofLabel>& labels) {
  constexpr double kLine = 13;
  std::ranges::sort(labels, {}, &RoofLabel::y);
  double next = 0;
  for (const RoofLabel& label : labels) {
    const double y = std::max(label.y, next);
    next = y + kLine;
    canvas.add("<text x='{}' y='{:.1f}' fill='{}'>{} {:.4g}</text>",
               Canvas::kWidth - Canvas::kRight + 6, y + 4, label.color, label.formats,
               label.peak * 1e-12);
  }
}

// The slope is labelled with the bandwidth, and each horizontal part with its format and peak.
void add_roofs(Canvas& canvas, const Hardware& hardware, std::string_view color) {
  const double bandwidth = hardware.memory_bytes_per_s;
  double highest = 0;
  for (int i = 0; i < kNumMathTypes; ++i) {
    const double peak = hardware.peak_flops[static_cast<size_t>(i)];
    if (peak <= 0) continue;
    highest = std::max(highest, peak);
    const double begin = std::max(canvas.low_x(), canvas.low_y() / bandwidth);
    canvas.add(
        "<path class='roof' style='stroke:{}' d='M{:.1f} {:.1f} L{:.1f} {:.1f} L{:.1f} {:.1f}'/>",
        color, canvas.x(begin), canvas.y(begin * bandwidth), canvas.x(peak / bandwidth),
        canvas.y(peak), canvas.x(canvas.high_x()), canvas.y(peak));
  }
  const double begin = std::max(canvas.low_x(), canvas.low_y() / bandwidth);
  const double middle = std::sqrt(begin * highest / bandwidth);
  const double x = canvas.x(middle), y = canvas.y(middle * bandwidth);
  const double degrees =
      std::atan2(canvas.y(2 * middle * bandwidth) - y, canvas.x(2 * middle) - x) * 180 / 3.14159265;
  canvas.add(
      "<text class='bandwidth' transform='translate({:.1f} {:.1f}) rotate({:.1f})' dy='-6' "
      "text-anchor='middle' fill='{}'>{:.4g} GB/s</text>",
      x, y, degrees, color, bandwidth * 1e-9);
}

void add_series(Canvas& canvas, const Series& series, std::string_view color) {
  for (const Step& step : series.steps) {
    const double x = canvas.x(step.bound.intensity);
    const double bound = canvas.y(step.bound.flops_per_s);
    const double predicted = canvas.y(step.predicted.flops_per_s);
    canvas.add(
        "<line class='gap' x1='{0:.1f}' y1='{1:.1f}' x2='{0:.1f}' y2='{2:.1f}' stroke='{3}'/>", x,
        bound, predicted, color);
    canvas.add("<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='none' stroke='{}'/>", x, bound, color);
    canvas.add(
        "<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='{}'><title>{}: {:.3g} TFLOP/s predicted, "
        "{:.3g} at most</title></circle>",
        x, predicted, color, escaped(step.label), step.predicted.flops_per_s * 1e-12,
        step.bound.flops_per_s * 1e-12);
    canvas.label(x, predicted, step.size, color);
  }
}

double highest_peak(const Hardware& hardware) {
  return *std::max_element(hardware.peak_flops.begin(), hardware.peak_flops.end());
}

// Returns a canvas whose axes contain all points and roofs.
Canvas canvas_for(const std::vector<Series>& series, const std::vector<const Hardware*>& devices) {
  double peak = 0, bend = 0, least = 1e300, low = 0.1, high = 1;
  for (const Hardware* hardware : devices) {
    peak = std::max(peak, highest_peak(*hardware));
    bend = std::max(bend, highest_peak(*hardware) / hardware->memory_bytes_per_s);
  }
  least = peak;
  high = 10 * bend;
  for (const Series& one : series) {
    for (const Step& step : one.steps) {
      least = std::min(least, step.predicted.flops_per_s);
      peak = std::max(peak, step.bound.flops_per_s);
      low = std::min(low, step.bound.intensity);
      high = std::max(high, step.bound.intensity);
    }
  }
  return {low, high, least, peak};
}

std::string drawn(const std::vector<Series>& series, const std::vector<const Hardware*>& devices,
                  std::string_view title) {
  Canvas canvas = canvas_for(series, devices);
  canvas.axes();
  const bool one = devices.size() == 1;
  std::vector<RoofLabel> labels;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string_view color = one ? "#0f172a" : series_color(i);
    add_roofs(canvas, *devices[i], color);
    // Several models on one device share one roof, which is labelled once.
    const auto is_named = [&](const Hardware* other) { return other->name == devices[i]->name; };
    if (std::none_of(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), is_named)) {
      add_roof_labels(canvas, *devices[i], color, labels);
    }
  }
  write_roof_labels(canvas, labels);
  double legend = Canvas::kTop + 260;
  for (size_t i = 0; i < series.size(); ++i) {
    add_series(canvas, series[i], series_color(i));
    canvas.add("<circle cx='{}' cy='{}' r='4' fill='{}'/><text x='{}' y='{}'>{}</text>",
               Canvas::kWidth - Canvas::kRight + 12, legend - 4, series_color(i),
               Canvas::kWidth - Canvas::kRight + 22, legend, escaped(series[i].name));
    legend += 18;
  }
  canvas.add("<text x='{}' y='{}'>ring: bound, dot: predicted</text>",
             Canvas::kWidth - Canvas::kRight + 6, legend);
  return canvas.svg(title);
}

constexpr std::string_view kPageStyle =
    "body{font:15px system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;"
    "color:#0f172a}pre{background:#f8fafc;border:1px solid #e2e8f0;border-radius:8px;padding:1em;"
    "overflow-x:auto;font-size:12px}svg{max-width:100%;height:auto}";

std::string page(std::string_view title, std::string_view pictures, std::string_view text) {
  return fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{0}</title>\n"
      "<style>{1}</style></head>\n<body><h1>{0}</h1>\n{2}\n<pre>{3}</pre></body></html>\n",
      escaped(title), kPageStyle, pictures, escaped(text));
}

}  // namespace

std::string roofline_svg(const CostModel& model, const ReportOptions& options) {
  std::vector<Series> series;
  for (const int32_t context : options.contexts) {
    series.push_back(
        decode_series(model, options, context, fmt::format("decode, context {}", context)));
  }
  series.push_back(prompt_series(model, options, "prompts"));
  return drawn(series, {&model.hardware()},
               fmt::format("{} ({}) on {}", model.model().name, weights_text(model.model()),
                           model.hardware().name));
}

std::string roofline_html(const CostModel& model, const ReportOptions& options) {
  return page(fmt::format("Roofline: {} on {}", model.model().name, model.hardware().name),
              roofline_svg(model, options) + time_svg(model, options), report(model, options));
}

std::string compare_svg(const std::vector<CostModel>& columns, const ReportOptions& options) {
  std::vector<Series> series;
  std::vector<const Hardware*> devices;
  for (const CostModel& model : columns) {
    const std::string name = fmt::format("{}, {}", model.model().name, model.hardware().name);
    Series one = decode_series(model, options, options.contexts.front(), name);
    const Series prompts = prompt_series(model, options, name);
    one.steps.insert(one.steps.end(), prompts.steps.begin(), prompts.steps.end());
    series.push_back(std::move(one));
    devices.push_back(&model.hardware());
  }
  return drawn(series, devices,
               fmt::format("decode at context {} and prompts", options.contexts.front()));
}

std::string compare_html(const std::vector<CostModel>& columns, const ReportOptions& options,
                         std::string_view text) {
  return page("Roofline: side by side", compare_svg(columns, options), text);
}

}  // namespace quire::roofline
