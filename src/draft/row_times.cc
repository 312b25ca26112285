#include "draft/row_times.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire {

Result<RowTimes> RowTimes::create(std::vector<Point> points) {
  if (points.size() < 2)
    return invalid_argument("row times: expected at least 2 points, got {}", points.size());
  int32_t before = 0;
  for (const Point& point : points) {
    if (point.num_rows <= before || !std::isfinite(point.us) || point.us <= 0) {
      return invalid_argument(
          "row times: expected ascending rows and times above 0, got {} rows in {} us behind {} "
          "rows",
          point.num_rows, point.us, before);
    }
    before = point.num_rows;
  }
  RowTimes times;
  times.points_ = std::move(points);
  return times;
}

double RowTimes::us(int32_t num_rows) const {
  if (num_rows <= 0) return 0;
  if (num_rows <= points_.front().num_rows) return points_.front().us;
  auto end = std::lower_bound(points_.begin(), points_.end(), num_rows,
                              [](const Point& point, int32_t n) { return point.num_rows < n; });
  const bool beyond = end == points_.end();
  if (beyond) --end;
  const Point& low = *(end - 1);
  const double slope = (end->us - low.us) / (end->num_rows - low.num_rows);
  if (beyond) return end->us + std::max(slope, 0.0) * (num_rows - end->num_rows);
  return low.us + slope * (num_rows - low.num_rows);
}

}  // namespace quire
