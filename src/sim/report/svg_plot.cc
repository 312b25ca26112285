#include "sim/report/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace quire::sim {
namespace {

constexpr double kWidth = 640, kHeight = 260;
constexpr double kLeft = 62, kRight = 12, kTop = 34, kBottom = 42;
constexpr size_t kNumColours = 8;

std::string number(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:.3g}G", value * 1e-9);
  if (size >= 1e6) return fmt::format("{:.3g}M", value * 1e-6);
  if (size >= 1e4) return fmt::format("{:.3g}k", value * 1e-3);
  return fmt::format("{:.4g}", value);
}

// Returns a round step that gives about five ticks.
double tick_step(double range) {
  if (!(range > 0)) return 1;
  const double raw = range / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double m : {1.0, 2.0, 5.0}) {
    if (raw <= m * power) return m * power;
  }
  return 10 * power;
}

class Axes {
 public:
  Axes(const PlotOptions& options, const std::vector<Series>& series) : options_(options) {
    bool any = false;
    for (const Series& s : series) {
      for (const auto& [x, y] : s.points) {
        const double at = scale_x(x);
        x_low_ = any ? std::min(x_low_, at) : at;
        x_high_ = any ? std::max(x_high_, at) : at;
        y_high_ = std::max(y_high_, y);
        any = true;
      }
    }
    if (options.y_max > 0) y_high_ = options.y_max;
    if (!(y_high_ > 0)) y_high_ = 1;
    y_high_ *= 1.05;
    if (!(x_high_ > x_low_)) x_high_ = x_low_ + 1;
  }
  double x(double value) const {
    return kLeft + (scale_x(value) - x_low_) / (x_high_ - x_low_) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - std::clamp(value / y_high_, 0.0, 1.0) * (kHeight - kTop - kBottom);
  }
  void draw(std::string& out) const {
    const double y_step = tick_step(y_high_);
    for (double v = 0; v <= y_high_; v += y_step) {
      fmt::format_to(std::back_inserter(out),
                     R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)"
                     R"(<text class="tick" text-anchor="end" x="{:.1f}" y="{:.1f}">{}</text>)",
                     kLeft, kWidth - kRight, y(v), y(v), kLeft - 6, y(v) + 4, number(v));
    }
    const double x_step = options_.log_x ? 1 : tick_step(x_high_ - x_low_);
    for (double v = std::ceil(x_low_ / x_step) * x_step; v <= x_high_ + 1e-9; v += x_step) {
      const double value = options_.log_x ? std::pow(10, v) : v;
      fmt::format_to(std::back_inserter(out),
                     R"(<text class="tick" text-anchor="middle" x="{:.1f}" y="{:.1f}">{}</text>)",
                     x(value), kHeight - kBottom + 16, number(value));
    }
    fmt::format_to(std::back_inserter(out),
                   R"(<text class="label" text-anchor="middle" x="{:.1f}" y="{:.1f}">{}</text>)",
                   (kLeft + kWidth - kRight) / 2, kHeight - 6, escape_html(options_.x_label));
    fmt::format_to(std::back_inserter(out),
                   R"(<text class="title" x="{:.1f}" y="15">{}</text>)"
                   R"(<text class="label" x="{:.1f}" y="15" text-anchor="end">{}</text>)",
                   kLeft, escape_html(options_.title), kWidth - kRight,
                   escape_html(options_.y_label));
  }

 private:
  double scale_x(double x) const { return options_.log_x ? std::log10(std::max(x, 1e-9)) : x; }
  const PlotOptions& options_;
  double x_low_ = 0, x_high_ = 0, y_high_ = 0;
};

void draw_line(std::string& out, const Axes& axes, const Series& series, size_t colour) {
  out += "<polyline fill=\"none\" stroke-width=\"1.6\" points=\"";
  for (const auto& [x, y] : series.points) {
    fmt::format_to(std::back_inserter(out), "{:.1f},{:.1f} ", axes.x(x), axes.y(y));
  }
  fmt::format_to(std::back_inserter(out), R"(" class="s{}"/>)", colour);
}

void draw_dots(std::string& out, const Axes& axes, const Series& series, size_t colour) {
  for (size_t i = 0; i < series.points.size(); ++i) {
    const auto& [x, y] = series.points[i];
    fmt::format_to(std::back_inserter(out), R"(<circle r="4" cx="{:.1f}" cy="{:.1f}" class="f{}">)",
                   axes.x(x), axes.y(y), colour);
    if (i < series.notes.size()) {
      fmt::format_to(std::back_inserter(out), "<title>{}</title>", escape_html(series.notes[i]));
    }
    out += "</circle>";
  }
}

void draw_area(std::string& out, const Axes& axes, const Series& upper, const Series* lower,
               size_t colour) {
  out += "<polygon points=\"";
  for (const auto& [x, y] : upper.points) {
    fmt::format_to(std::back_inserter(out), "{:.1f},{:.1f} ", axes.x(x), axes.y(y));
  }
  for (size_t i = upper.points.size(); i-- > 0;) {
    const double y = lower == nullptr ? 0 : lower->points[i].second;
    fmt::format_to(std::back_inserter(out), "{:.1f},{:.1f} ", axes.x(upper.points[i].first),
                   axes.y(y));
  }
  fmt::format_to(std::back_inserter(out), R"(" class="f{}" fill-opacity=".75"/>)", colour);
}

std::string legend(const std::vector<std::string>& names) {
  std::string out;
  double x = kLeft;
  for (size_t i = 0; i < names.size(); ++i) {
    fmt::format_to(std::back_inserter(out),
                   R"(<rect x="{:.0f}" y="21" width="9" height="9" class="f{}"/>)"
                   R"(<text class="tick" x="{:.0f}" y="29">{}</text>)",
                   x, i % kNumColours, x + 13, escape_html(names[i]));
    x += 19 + 5.7 * static_cast<double>(names[i].size());
  }
  return out;
}

std::string open_svg(double height, const std::string& title) {
  return fmt::format(R"(<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">)", kWidth,
                     height, escape_html(title));
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string svg_plot(const PlotOptions& options, const std::vector<Series>& given) {
  std::vector<Series> series = given;
  if (options.area) {
    for (size_t s = 1; s < series.size(); ++s) {
      for (size_t i = 0; i < series[s].points.size(); ++i) {
        series[s].points[i].second += series[s - 1].points[i].second;
      }
    }
  }
  const Axes axes(options, series);
  std::string out = open_svg(kHeight, options.title);
  axes.draw(out);
  std::vector<std::string> names;
  for (size_t s = 0; s < series.size(); ++s) {
    const size_t colour = s % kNumColours;
    if (options.area) {
      draw_area(out, axes, series[s], s == 0 ? nullptr : &series[s - 1], colour);
    } else if (series[s].dots) {
      draw_dots(out, axes, series[s], colour);
    } else {
      draw_line(out, axes, series[s], colour);
    }
    names.push_back(series[s].name);
  }
  if (series.size() > 1 || !series[0].name.empty()) out += legend(names);
  return out + "</svg>";
}

std::string svg_bars(const std::string& title, const std::vector<std::string>& part_names,
                     const std::vector<Bar>& bars) {
  constexpr double kRow = 26, kNames = 110, kNotes = 110;
  const double height = kTop + kRow * static_cast<double>(bars.size()) + 10;
  std::string out = open_svg(height, title);
  fmt::format_to(std::back_inserter(out), R"(<text class="title" x="{:.0f}" y="15">{}</text>)",
                 kLeft, escape_html(title));
  out += legend(part_names);
  double widest = 0;
  for (const Bar& bar : bars) {
    double total = 0;
    for (const double part : bar.parts) total += part;
    widest = std::max(widest, total);
  }
  for (size_t row = 0; row < bars.size(); ++row) {
    const double y = kTop + 6 + kRow * static_cast<double>(row);
    double x = kNames;
    fmt::format_to(std::back_inserter(out),
                   R"(<text class="tick" text-anchor="end" x="{:.0f}" y="{:.0f}">{}</text>)",
                   kNames - 8, y + 13, escape_html(bars[row].name));
    for (size_t i = 0; i < bars[row].parts.size(); ++i) {
      const double width =
          widest > 0 ? bars[row].parts[i] / widest * (kWidth - kNames - kNotes) : 0;
      fmt::format_to(std::back_inserter(out),
                     R"(<rect x="{:.1f}" y="{:.0f}" width="{:.1f}" height="18" class="f{}"/>)", x,
                     y, width, i % kNumColours);
      x += width;
    }
    fmt::format_to(std::back_inserter(out), R"(<text class="tick" x="{:.1f}" y="{:.0f}">{}</text>)",
                   x + 6, y + 13, escape_html(bars[row].note));
  }
  return out + "</svg>";
}

}  // namespace quire::sim
