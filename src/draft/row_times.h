// RowTimes stores the time of a step by the number of its rows, for weighing numbers of drafts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace quire {

// Measured once and then constant, so that the same events give the same plans. Between two
// measured numbers of rows, time is linear; beyond the last one it goes on growing at the last
// slope. More rows do not always take longer, because kernels prefer some sizes.
class RowTimes {
 public:
  struct Point {
    int32_t num_rows = 0;
    double us = 0;
  };

  // An unknown table.
  RowTimes() = default;
  // Fails unless there are at least two points with ascending rows >= 1 and times > 0.
  static Result<RowTimes> create(std::vector<Point> points);

  bool known() const { return !points_.empty(); }
  // Returns the time of so many rows; 0 rows take no time. The table must be known.
  double us(int32_t num_rows) const;
  std::span<const Point> points() const { return points_; }

 private:
  std::vector<Point> points_;
};

}  // namespace quire
