#include "roofline/model/scatter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace quire {
namespace {

constexpr double kSamePoint = 1e-12;  // squared distance
// Noise relative to a value, in addition to the differences between neighbours.
constexpr double kNoise = 1e-3;
// Ridge of the slopes, some of which are undefined for neighbours on a line.
constexpr double kRidge = 1e-6;
constexpr size_t kMaxLeftOut = 256;   // points for which settings are compared
constexpr double kWorthwhile = 0.99;  // a setting that reduces the error by less is not changed

// Solves a x = b in place (Gauss, with the largest pivot first), for `n` rows and b in column n.
template <typename Rows>
void solve(Rows& a, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t r = i + 1; r < n; ++r) {
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    }
    std::swap(a[i], a[pivot]);
    for (size_t r = i + 1; r < n; ++r) {
      const double factor = a[r][i] / a[i][i];
      if (factor == 0) continue;
      for (size_t c = i; c <= n; ++c) a[r][c] -= factor * a[i][c];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t c = i + 1; c < n; ++c) a[i][n] -= a[i][c] * a[c][n];
    a[i][n] /= a[i][i];
  }
}

}  // namespace

ScatterTable::ScatterTable(int num_dimensions, std::vector<ScatterPoint> points,
                           std::vector<double> values)
    : num_dimensions_(num_dimensions), points_(std::move(points)), values_(std::move(values)) {
  scale_.fill(1);
  std::vector<Sample> judges;
  const size_t stride = points_.size() / kMaxLeftOut + 1;
  for (size_t i = 0; i < points_.size(); i += stride) judges.push_back({points_[i], values_[i]});
  sort_as_tree();
  tune(judges);
}

void ScatterTable::sort_as_tree() {
  std::vector<uint32_t> order(points_.size());
  std::iota(order.begin(), order.end(), 0u);
  build(0, static_cast<uint32_t>(order.size()), 0, order);
  std::vector<ScatterPoint> sorted_points;
  std::vector<double> sorted_values;
  for (const uint32_t i : order) {
    sorted_points.push_back(points_[i]);
    sorted_values.push_back(values_[i]);
  }
  points_ = std::move(sorted_points);
  values_ = std::move(sorted_values);
}

void ScatterTable::rescale(size_t axis, double factor) {
  scale_[axis] *= factor;
  for (ScatterPoint& point : points_) point[axis] *= factor;
  sort_as_tree();
}

double ScatterTable::left_out_error(std::span<const Sample> judges) const {
  double sum = 0;
  size_t count = 0;
  for (const Sample& judge : judges) {
    const ScatterPoint point = scaled(judge.point);
    Nearest nearest{.most = num_neighbours_, .least_distance2 = kSamePoint};
    search(0, static_cast<uint32_t>(points_.size()), 0, point, nearest);
    if (nearest.count == 0) continue;
    sum += std::abs(fit(point, nearest) - judge.value);
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

ScatterPoint ScatterTable::scaled(ScatterPoint point) const {
  for (size_t d = 0; d < point.size(); ++d) point[d] *= scale_[d];
  return point;
}

// Searches one setting at a time: the number of neighbours, then each axis twice and half as long.
void ScatterTable::tune(std::span<const Sample> judges) {
  constexpr int kPasses = 2;
  double best = left_out_error(judges);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const int count : {4, 6, 8, 12, kMaxNeighbours}) {
      const int before = std::exchange(num_neighbours_, count);
      const double error = left_out_error(judges);
      if (error < kWorthwhile * best) {
        best = error;
      } else {
        num_neighbours_ = before;
      }
    }
    for (size_t axis = 0; axis < static_cast<size_t>(num_dimensions_); ++axis) {
      for (const double factor : {2.0, 0.5}) {
        rescale(axis, factor);
        const double error = left_out_error(judges);
        if (error < kWorthwhile * best) {
          best = error;
          break;
        }
        rescale(axis, 1 / factor);
      }
    }
  }
}

// Puts the median of [begin, end) along the depth's dimension in the middle, and smaller ones
// before it.
void ScatterTable::build(uint32_t begin, uint32_t end, int depth, std::span<uint32_t> order) {
  if (end - begin < 2) return;
  const uint32_t middle = begin + (end - begin) / 2;
  const auto axis = static_cast<size_t>(depth % num_dimensions_);
  std::nth_element(order.begin() + begin, order.begin() + middle, order.begin() + end,
                   [&](uint32_t a, uint32_t b) {
                     return std::pair(points_[a][axis], a) < std::pair(points_[b][axis], b);
                   });
  build(begin, middle, depth + 1, order);
  build(middle + 1, end, depth + 1, order);
}

double ScatterTable::Nearest::worst() const {
  return count < most ? std::numeric_limits<double>::infinity()
                      : found[static_cast<size_t>(most) - 1].distance2;
}

void ScatterTable::Nearest::offer(Neighbour candidate) {
  if (candidate.distance2 >= worst() || candidate.distance2 < least_distance2) return;
  if (count < most) ++count;
  int i = count - 1;
  for (; i > 0 && found[static_cast<size_t>(i) - 1].distance2 > candidate.distance2; --i) {
    found[static_cast<size_t>(i)] = found[static_cast<size_t>(i) - 1];
  }
  found[static_cast<size_t>(i)] = candidate;
}

double ScatterTable::distance2(const ScatterPoint& a, const ScatterPoint& b) const {
  double sum = 0;
  for (size_t d = 0; d < static_cast<size_t>(num_dimensions_); ++d) {
    sum += (a[d] - b[d]) * (a[d] - b[d]);
  }
  return sum;
}

void ScatterTable::search(uint32_t begin, uint32_t end, int depth, const ScatterPoint& point,
                          Nearest& nearest) const {
  if (begin >= end) return;
  const uint32_t middle = begin + (end - begin) / 2;
  nearest.offer({distance2(point, points_[middle]), middle});
  const auto axis = static_cast<size_t>(depth % num_dimensions_);
  const double offset = point[axis] - points_[middle][axis];
  if (offset < 0) {
    search(begin, middle, depth + 1, point, nearest);
    if (offset * offset < nearest.worst()) search(middle + 1, end, depth + 1, point, nearest);
  } else {
    search(middle + 1, end, depth + 1, point, nearest);
    if (offset * offset < nearest.worst()) search(begin, middle, depth + 1, point, nearest);
  }
}

// Returns the kriging estimate with a linear trend and a variogram that grows with distance. It is
// the height at `point` of the surface trend + sum of weight_i * -|x - x_i| through the nearest
// points.
double ScatterTable::fit(const ScatterPoint& point, const Nearest& nearest) const {
  constexpr size_t kRows = kMaxNeighbours + kMaxScatterDimensions + 1;
  std::array<std::array<double, kRows + 1>, kRows> a{};
  const auto count = static_cast<size_t>(nearest.count);
  const size_t rows = count + static_cast<size_t>(num_dimensions_) + 1;
  const double reach = 2 * std::sqrt(nearest.found[count - 1].distance2) + 1e-9;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (size_t i = 0; i < count; ++i) {
    const ScatterPoint& here = points_[nearest.found[i].index];
    const double value = values_[nearest.found[i].index];
    low = std::min(low, value);
    high = std::max(high, value);
    for (size_t j = 0; j < i; ++j) {
      a[i][j] = a[j][i] = -std::sqrt(distance2(here, points_[nearest.found[j].index])) / reach;
    }
    a[i][i] = kNoise;
    a[i][count] = a[count][i] = 1;
    for (size_t d = 0; d < static_cast<size_t>(num_dimensions_); ++d) {
      a[i][count + 1 + d] = a[count + 1 + d][i] = (here[d] - point[d]) / reach;
    }
    a[i][rows] = value;
  }
  for (size_t r = count; r < rows; ++r) a[r][r] = -kRidge;
  solve(a, rows);
  double height = a[count][rows];
  for (size_t i = 0; i < count; ++i) {
    height -= a[i][rows] * std::sqrt(nearest.found[i].distance2) / reach;
  }
  return std::clamp(height, low, high);
}

double ScatterTable::at(const ScatterPoint& where) const {
  const ScatterPoint point = scaled(where);
  Nearest nearest{.most = num_neighbours_};
  search(0, static_cast<uint32_t>(points_.size()), 0, point, nearest);
  double sum = 0;
  int same = 0;
  while (same < nearest.count && nearest.found[static_cast<size_t>(same)].distance2 < kSamePoint) {
    sum += values_[nearest.found[static_cast<size_t>(same)].index];
    ++same;
  }
  return same > 0 ? sum / same : fit(point, nearest);
}

}  // namespace quire
