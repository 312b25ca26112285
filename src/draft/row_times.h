// What a step takes by the number of its rows: what counts of drafts are weighed by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace quire {

// Measured once and frozen, so that the same events give the same plans. Between two known counts of
// rows the time is linear, and beyond the last it grows as it did before. Steps need not take longer
// with more rows: kernels have favourite sizes.
class RowTimes {
 public:
  struct Point {
    int32_t num_rows = 0;
    double us = 0;
  };

  // Nothing is known.
  RowTimes() = default;
  // Takes at least two points, of ascending rows >= 1 and times > 0, and fails otherwise.
  static Result<RowTimes> create(std::vector<Point> points);

  bool known() const { return !points_.empty(); }
  // Of a known table. 0 rows take no time.
  double us(int32_t num_rows) const;
  std::span<const Point> points() const { return points_; }

 private:
  std::vector<Point> points_;
};

}  // namespace quire
