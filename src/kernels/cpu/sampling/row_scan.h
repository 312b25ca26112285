// A row of logits with the greatest value of each chunk of 64, which one pass has found. Searches
// for the likeliest tokens then read only the chunks that can hold them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/sampling/row_kernels.h"

namespace quire {

struct ScannedRow {
  std::span<const float> row;        // [V]
  std::span<const float> chunk_max;  // [ceil(V / kRowChunk)]

  float max() const;
  std::span<const float> chunk(size_t c) const {
    const size_t begin = c * kRowChunk;
    return row.subspan(begin, std::min<size_t>(kRowChunk, row.size() - begin));
  }
  // Calls visit(token, value) for all values >= low, by ascending token.
  template <typename Visit>
  void for_each_from(float low, Visit visit) const {
    for (size_t c = 0; c < chunk_max.size(); ++c) {
      if (!(chunk_max[c] >= low)) continue;
      const std::span<const float> values = chunk(c);
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] >= low) visit(c * kRowChunk + i, values[i]);
      }
    }
  }
};

// Scans rows into a buffer that it keeps.
class RowScanner {
 public:
  explicit RowScanner(Isa isa) : kernels_(&row_kernels(isa)) {}

  // Allocates for rows of `row_size` values, so that scans of such rows do not allocate.
  void reserve(size_t row_size);

  // Valid until the next scan(). `row` has at least one value.
  ScannedRow scan(std::span<const float> row);
  // Returns the sum of e^scaled over the values with scaled >= low.
  double exp_total(const ScannedRow& row, LogitScale scale, float low);
  // Returns the same as exp_total(), and keeps the weight of every value for weighed() and split().
  double weigh(const ScannedRow& row, LogitScale scale, float low);
  // Returns the sum of e^scaled over every `stride`-th chunk, from the last weigh().
  double weighed(size_t stride) const;
  // The scaled values in `range`, in order, and the mass of these and of the values above, from the
  // last weigh(). Valid until the next collect() or split().
  struct Split {
    std::span<const float> inside;
    double mass_above;
    double mass_inside;
  };
  Split split(const ScannedRow& row, LogitScale scale, ScaledRange range);
  // Returns all values of every `stride`-th chunk. Valid until the next sample().
  std::span<float> sample(const ScannedRow& row, size_t stride);
  // Returns the scaled values in `range`, in order. Valid until the next collect() or split().
  std::span<float> collect(const ScannedRow& row, LogitScale scale, ScaledRange range);
  // Returns whether all values of the last row were finite.
  bool all_finite() const { return all_finite_; }
  const RowKernels& kernels() const { return *kernels_; }

 private:
  const RowKernels* kernels_;
  std::vector<float> chunk_max_;
  std::vector<float> chunk_sum_;
  std::vector<float> weights_;
  std::vector<float> collected_;
  std::vector<float> sample_;
  bool all_finite_ = true;
};

}  // namespace quire
