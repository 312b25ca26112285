// A Canvas is an SVG whose two axes are logarithmic. Its labels do not cover each other.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::roofline {

std::string escaped(std::string_view text);
// Returns the colour of the i-th series.
std::string_view series_color(size_t i);

class Canvas {
 public:
  static constexpr double kWidth = 860, kHeight = 520;
  static constexpr double kLeft = 70, kRight = 190, kTop = 40, kBottom = 56;

  // The axes reach to the powers of ten around the given ranges.
  Canvas(double min_x, double max_x, double min_y, double max_y);
  double x(double value) const;
  double y(double value) const;
  double low_x() const;
  double low_y() const;
  double high_x() const;

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_.push_back('\n');
  }
  void axes();
  // Writes a label beside (x, y), in pixels, on the first side where no other label is. Where all
  // sides are taken, it writes nothing.
  void label(double x, double y, std::string_view text, std::string_view color);
  std::string svg(std::string_view title) const;

 private:
  struct Box {
    double left, top, right, bottom;
  };
  bool is_free(const Box& box) const;

  double min_x_, max_x_, min_y_, max_y_;  // powers of ten
  std::string body_;
  std::vector<Box> labels_;
};

}  // namespace quire::roofline
