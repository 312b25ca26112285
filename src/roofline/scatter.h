// Interpolation over scattered points: a plane fitted through the nearest ones.
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
  // `num_dimensions` of each point count, the others are ignored. Points that coincide are averaged
  // when they are met.
  ScatterTable(int num_dimensions, std::vector<ScatterPoint> points, std::vector<double> values);

  // Never outside of what the nearest points have. Precondition: not empty.
  double at(const ScatterPoint& point) const;
  bool empty() const { return points_.empty(); }

 private:
  struct Neighbour {
    double distance2;
    uint32_t index;
  };
  static constexpr int kNeighbours = 16;
  struct Nearest {
    std::array<Neighbour, kNeighbours> found;  // ascending
    int count = 0;
    void offer(Neighbour candidate);
    double worst() const;
  };

  void build(uint32_t begin, uint32_t end, int depth, std::span<uint32_t> order);
  void search(uint32_t begin, uint32_t end, int depth, const ScatterPoint& point,
              Nearest& nearest) const;
  double distance2(const ScatterPoint& a, const ScatterPoint& b) const;
  double fit(const ScatterPoint& point, const Nearest& nearest) const;

  int num_dimensions_;
  std::vector<ScatterPoint> points_;  // in the order of a balanced k-d tree
  std::vector<double> values_;
};

}  // namespace quire
