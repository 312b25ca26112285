#include "sim/replica/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quire::sim {

size_t DurationHistogram::bucket_of(int64_t ns) {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(ns, 0));
  if (value < (1u << kSubBits)) return static_cast<size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - kSubBits - 1;
  return (static_cast<size_t>(shift + 1) << kSubBits) +
         static_cast<size_t>((value >> shift) & ((1u << kSubBits) - 1));
}

double DurationHistogram::middle_of(size_t bucket) {
  if (bucket < (1u << kSubBits)) return static_cast<double>(bucket);
  const auto shift = static_cast<int>(bucket >> kSubBits) - 1;
  const uint64_t low = ((1u << kSubBits) + (bucket & ((1u << kSubBits) - 1))) << shift;
  return static_cast<double>(low) + 0.5 * (std::ldexp(1.0, shift) - 1.0);
}

void DurationHistogram::add(int64_t ns, int64_t count) {
  const size_t bucket = bucket_of(ns);
  if (bucket >= counts_.size()) counts_.resize(bucket + 1, 0);
  counts_[bucket] += count;
  count_ += count;
  const auto value =
      static_cast<unsigned __int128>(static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
  sum_ += value * static_cast<uint64_t>(count);
  sum_squares_ += value * value * static_cast<uint64_t>(count);
}

void DurationHistogram::merge(const DurationHistogram& other) {
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size(), 0);
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  sum_squares_ += other.sum_squares_;
}

double DurationHistogram::mean_ns() const {
  return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

double DurationHistogram::deviation_ns() const {
  if (count_ == 0) return 0.0;
  const double mean = mean_ns();
  const double square = static_cast<double>(sum_squares_) / static_cast<double>(count_);
  return std::sqrt(std::max(0.0, square - mean * mean));
}

double DurationHistogram::value_at(int64_t rank) const {
  int64_t below = 0;
  for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    below += counts_[bucket];
    if (rank < below) return middle_of(bucket);
  }
  return 0.0;
}

double DurationHistogram::quantile_ns(double q) const {
  if (count_ == 0) return 0.0;
  const double position = q * static_cast<double>(count_ - 1);
  const auto rank = static_cast<int64_t>(position);
  const double low = value_at(rank);
  const double high = value_at(std::min(rank + 1, count_ - 1));
  return low + (high - low) * (position - static_cast<double>(rank));
}

}  // namespace quire::sim
