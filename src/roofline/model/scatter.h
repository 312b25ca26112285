// ScatterTable interpolates between scattered points: kriging with a linear trend through the
// nearest ones (Matheron, "The intrinsic random functions and their applications", 1973). How many
// points count as near, and how long a step along each axis is, are the settings that predict
// points best from the others.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

inline constexpr int kMaxScatterDimensions = 5;
using ScatterPoint = std::array<double, kMaxScatterDimensions>;

class ScatterTable {
 public:
  // Only the first `num_dimensions` coordinates of each point count. Points at the same place are
  // averaged when a lookup meets them. Values are logarithms of ratios or similar: their errors are
  // compared without scaling.
  ScatterTable(int num_dimensions, std::vector<ScatterPoint> points, std::vector<double> values);

  // Returns a value within the range of the nearest points' values. Precondition: the table is not
  // empty.
  double at(const ScatterPoint& point) const;
  bool empty() const { return points_.empty(); }

 private:
  struct Neighbour {
    double distance2;
    uint32_t index;
  };
  static constexpr int kMaxNeighbours = 16;
  struct Nearest {
    std::array<Neighbour, kMaxNeighbours> found;  // ascending by distance
    int count = 0;
    int most = kMaxNeighbours;
    double least_distance2 = -1;  // nearer points are skipped
    void offer(Neighbour candidate);
    double worst() const;
  };

  struct Sample {
    ScatterPoint point;  // not scaled
    double value;
  };
  void tune(std::span<const Sample> judges);
  void rescale(size_t axis, double factor);
  // Returns the mean error of points of the table, each predicted from all points at other places.
  double left_out_error(std::span<const Sample> judges) const;
  ScatterPoint scaled(ScatterPoint point) const;
  void sort_as_tree();
  void build(uint32_t begin, uint32_t end, int depth, std::span<uint32_t> order);
  void search(uint32_t begin, uint32_t end, int depth, const ScatterPoint& point,
              Nearest& nearest) const;
  double distance2(const ScatterPoint& a, const ScatterPoint& b) const;
  double fit(const ScatterPoint& point, const Nearest& nearest) const;

  int num_dimensions_;
  int num_neighbours_ = kMaxNeighbours;
  ScatterPoint scale_;                // of the axes; points_ are scaled
  std::vector<ScatterPoint> points_;  // in the order of a balanced k-d tree
  std::vector<double> values_;
};

}  // namespace quire
