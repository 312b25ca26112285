#include "engine/observe/engine_stats.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {

Histogram::Histogram(std::vector<double> upper_bounds)
    : bounds(std::move(upper_bounds)), counts(bounds.size() + 1, 0) {
  QUIRE_CHECK(std::is_sorted(bounds.begin(), bounds.end()), "histogram bounds must ascend");
}

void Histogram::observe(double value, uint64_t times) {
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  counts[static_cast<size_t>(bucket)] += times;
  sum += value * static_cast<double>(times);
  count += times;
}

namespace buckets {

std::vector<double> time_to_first_token_s() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
}

std::vector<double> inter_token_s() {
  return {0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,
          0.3,    0.4,   0.5,   0.75,  1.0,   2.5,    5.0,  7.5,   10.0, 20.0,  40.0, 80.0};
}

std::vector<double> latency_s() {
  return {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
          30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
}

std::vector<double> num_preemptions() { return {1, 2, 3, 4, 5, 10, 20}; }

std::vector<double> num_choices() { return {1, 2, 5, 10, 20}; }

std::vector<double> iteration_tokens() {
  std::vector<double> bounds{1, 8};
  for (double bound = 16; bound <= 16384; bound *= 2) bounds.push_back(bound);
  return bounds;
}

std::vector<double> kv_residency_s() {
  return {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,  1,   2,
          5,     10,    20,    30,   60,   120,  300, 600, 1200, 1800};
}

std::vector<double> shares() {
  return {0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5,
          0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0};
}

std::vector<double> ratios() {
  return {0.1,  0.2, 0.3,  0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0,
          1.05, 1.1, 1.15, 1.2, 1.5, 2,   3,    5,   10};
}

std::vector<double> one_two_five(int64_t max_value) {
  std::vector<double> bounds;
  for (int64_t decade = 1; decade <= max_value; decade *= 10) {
    for (const int64_t digit : {1, 2, 5}) {
      if (decade * digit <= max_value) bounds.push_back(static_cast<double>(decade * digit));
    }
    if (decade > max_value / 10) break;
  }
  return bounds;
}

}  // namespace buckets
}  // namespace quire
