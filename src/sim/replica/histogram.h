// DurationHistogram's size does not depend on how many durations there are. Counts are integers, so
// that merging in any order gives the same.
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
  // Interpolates as between sorted values; 0 when the histogram is empty.
  double quantile_ns(double q) const;

 private:
  static constexpr int kSubBits = 8;
  static size_t bucket_of(int64_t ns);
  static double middle_of(size_t bucket);
  double value_at(int64_t rank) const;

  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  // Sums are modulo 2^128 and exact, because the variance of sums of squares must not depend on
  // order.
  unsigned __int128 sum_ = 0;
  unsigned __int128 sum_squares_ = 0;
};

}  // namespace quire::sim
