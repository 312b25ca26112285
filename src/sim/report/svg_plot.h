// These are small plots as SVG text, for pages that need no other file. Colours come from the
// page's CSS: classes s0 … s7 stroke, f0 … f7 fill.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quire::sim {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // sorted by x
  bool dots = false;                              // dots instead of a line
  std::vector<std::string> notes;  // shown when the pointer is on a dot; may be empty
};

struct PlotOptions {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;
  bool area = false;  // series are stacked, each filled down to the one below it
  double y_max = 0;   // 0 means that the data decide
};

std::string svg_plot(const PlotOptions& options, const std::vector<Series>& series);

// A Bar is a horizontal bar divided into named parts; the values of a bar need not sum to 1.
struct Bar {
  std::string name;
  std::vector<double> parts;
  std::string note;
};
std::string svg_bars(const std::string& title, const std::vector<std::string>& part_names,
                     const std::vector<Bar>& bars);

// Returns the text escaped for HTML.
std::string escape_html(const std::string& text);

}  // namespace quire::sim
