// A DurationHistogram takes the same memory for any number of durations. Counts are integers, so
// that histograms can be merged in any order with the same result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::sim {

// Buckets are 1/256 of a power of two wide: a quantile is off by less than 0.2 % of its value.
class DurationHistogram {
 public:
  void add(int64_t ns, int64_t count = 1);
  void merge(const DurationHistogram& other);

  int64_t count() const { return count_; }
  double mean_ns() const;
  double deviation_ns() const;
  // Returns a quantile, interpolated as between sorted values; 0 if the histogram is empty.
  double quantile_ns(double q) const;

 private:
  static constexpr int kSubBits = 8;
  static size_t bucket_of(int64_t ns);
  static double middle_of(size_t bucket);
  double value_at(int64_t rank) const;

  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  // The sums of durations and of their squares, exact modulo 2^128, because the variance must not
  // depend on the order of additions.
  unsigned __int128 sum_ = 0;
  unsigned __int128 sum_squares_ = 0;
};

}  // namespace quire::sim
