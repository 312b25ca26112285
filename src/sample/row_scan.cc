#include "sample/row_scan.h"

namespace quire {

float ScannedRow::max() const { return *std::max_element(chunk_max.begin(), chunk_max.end()); }

ScannedRow RowScanner::scan(std::span<const float> row) {
  chunk_max_.resize((row.size() + kRowChunk - 1) / kRowChunk);
  all_finite_ = kernels_->scan(row.data(), static_cast<int64_t>(row.size()), chunk_max_.data());
  return {row, chunk_max_};
}

double RowScanner::exp_total(const ScannedRow& row, LogitScale scale, float low) {
  chunk_sum_.resize(row.chunk_max.size());
  kernels_->exp_sums(row.row.data(), static_cast<int64_t>(row.row.size()), row.chunk_max.data(),
                     scale, low, chunk_sum_.data());
  double total = 0;
  for (const float sum : chunk_sum_) total += static_cast<double>(sum);
  return total;
}

std::span<const float> RowScanner::collect(const ScannedRow& row, LogitScale scale,
                                           ScaledRange range) {
  collected_.resize(row.row.size());
  const int64_t count = kernels_->collect(row.row.data(), static_cast<int64_t>(row.row.size()),
                                          row.chunk_max.data(), scale, range, collected_.data());
  return std::span<const float>(collected_).first(static_cast<size_t>(count));
}

}  // namespace quire
