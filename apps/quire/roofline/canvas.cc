#include "quire/roofline/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace quire::roofline {
namespace {

constexpr std::array<std::string_view, 8> kColors = {"#2563eb", "#16a34a", "#d97706", "#9333ea",
                                                     "#dc2626", "#0891b2", "#4d7c0f", "#be185d"};
constexpr double kLetter = 6.2, kLine = 11;  // of a label, in pixels

}  // namespace

std::string_view series_color(size_t i) { return kColors[i % kColors.size()]; }

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

Canvas::Canvas(double min_x, double max_x, double min_y, double max_y)
    : min_x_(std::floor(std::log10(min_x))),
      max_x_(std::ceil(std::log10(max_x))),
      min_y_(std::floor(std::log10(min_y))),
      max_y_(std::ceil(std::log10(max_y))) {}

double Canvas::x(double value) const {
  const double f = (std::log10(std::max(value, 1e-12)) - min_x_) / (max_x_ - min_x_);
  return kLeft + std::clamp(f, 0.0, 1.0) * (kWidth - kLeft - kRight);
}

double Canvas::y(double value) const {
  const double f = (std::log10(std::max(value, 1e-12)) - min_y_) / (max_y_ - min_y_);
  return kHeight - kBottom - std::clamp(f, 0.0, 1.0) * (kHeight - kTop - kBottom);
}

double Canvas::low_x() const { return std::pow(10, min_x_); }
double Canvas::low_y() const { return std::pow(10, min_y_); }
double Canvas::high_x() const { return std::pow(10, max_x_); }

void Canvas::axes() {
  for (double e = min_x_; e <= max_x_; ++e) {
    const double at = x(std::pow(10, e));
    add("<line class='grid' x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}'/>", at, kTop,
        kHeight - kBottom);
    add("<text x='{:.1f}' y='{}' text-anchor='middle'>{:g}</text>", at, kHeight - kBottom + 18,
        std::pow(10, e));
  }
  for (double e = min_y_; e <= max_y_; ++e) {
    const double at = y(std::pow(10, e));
    add("<line class='grid' x1='{0}' y1='{2:.1f}' x2='{1}' y2='{2:.1f}'/>", kLeft, kWidth - kRight,
        at);
    add("<text x='{}' y='{:.1f}' text-anchor='end'>{:g}</text>", kLeft - 8, at + 4,
        std::pow(10, e - 12));
  }
  add("<text x='{}' y='{}' text-anchor='middle'>FLOP per byte moved</text>",
      (kLeft + kWidth - kRight) / 2, kHeight - 14);
  add("<text transform='translate(18 {}) rotate(-90)' text-anchor='middle'>TFLOP/s</text>",
      kHeight / 2);
}

bool Canvas::is_free(const Box& box) const {
  return std::none_of(labels_.begin(), labels_.end(), [&](const Box& other) {
    return box.left < other.right && other.left < box.right && box.top < other.bottom &&
           other.top < box.bottom;
  });
}

void Canvas::label(double x, double y, std::string_view text, std::string_view color) {
  const double width = kLetter * static_cast<double>(text.size());
  const std::array<Box, 4> places = {{{x + 6, y - kLine / 2, x + 6 + width, y + kLine / 2},
                                      {x - 6 - width, y - kLine / 2, x - 6, y + kLine / 2},
                                      {x - width / 2, y - 7 - kLine, x + width / 2, y - 7},
                                      {x - width / 2, y + 7, x + width / 2, y + 7 + kLine}}};
  const auto* const place =
      std::find_if(places.begin(), places.end(), [&](const Box& box) { return is_free(box); });
  if (place == places.end()) return;
  labels_.push_back(*place);
  add("<text class='label' x='{:.1f}' y='{:.1f}' fill='{}'>{}</text>", place->left,
      place->bottom - 2, color, escaped(text));
}

std::string Canvas::svg(std::string_view title) const {
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "role='img' font-family='system-ui, sans-serif' font-size='12' fill='#334155'>\n"
      "<style>.grid{{stroke:#e2e8f0}}.roof{{fill:none;stroke:#0f172a;stroke-width:2}}"
      ".gap{{stroke-dasharray:2 3}}.label{{font-size:10px}}</style>\n"
      "<rect width='{0}' height='{1}' fill='#ffffff'/>\n"
      "<text x='{2}' y='22' font-size='15' font-weight='600'>{3}</text>\n{4}</svg>\n",
      kWidth, kHeight, kLeft, escaped(title), body_);
}

}  // namespace quire::roofline
