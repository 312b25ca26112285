#include "kernels/cpu/sampling/row_scan.h"

namespace quire {

void RowScanner::reserve(size_t row_size) {
  const size_t num_chunks = (row_size + kRowChunk - 1) / kRowChunk;
  chunk_max_.reserve(num_chunks);
  chunk_sum_.reserve(num_chunks);
  weights_.reserve(num_chunks * kRowChunk);
  collected_.reserve(row_size + 16);
  sample_.reserve(num_chunks * kRowChunk);
}

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

double RowScanner::weigh(const ScannedRow& row, LogitScale scale, float low) {
  chunk_sum_.resize(row.chunk_max.size());
  weights_.resize(row.chunk_max.size() * kRowChunk);
  kernels_->exp_weights(row.row.data(), static_cast<int64_t>(row.row.size()), row.chunk_max.data(),
                        scale, low, weights_.data(), chunk_sum_.data());
  return weighed(1);
}

double RowScanner::weighed(size_t stride) const {
  double total = 0;
  for (size_t c = 0; c < chunk_sum_.size(); c += stride)
    total += static_cast<double>(chunk_sum_[c]);
  return total;
}

RowScanner::Split RowScanner::split(const ScannedRow& row, LogitScale scale, ScaledRange range) {
  collected_.resize(row.row.size() + 16);
  const BandMass mass =
      kernels_->split_band(row.row.data(), weights_.data(), static_cast<int64_t>(row.row.size()),
                           row.chunk_max.data(), scale, range, collected_.data());
  return {.inside = std::span<const float>(collected_).first(static_cast<size_t>(mass.count)),
          .mass_above = mass.above,
          .mass_inside = mass.inside};
}

std::span<float> RowScanner::sample(const ScannedRow& row, size_t stride) {
  sample_.clear();
  for (size_t c = 0; c < row.chunk_max.size(); c += stride) {
    const std::span<const float> chunk = row.chunk(c);
    sample_.insert(sample_.end(), chunk.begin(), chunk.end());
  }
  return sample_;
}

std::span<float> RowScanner::collect(const ScannedRow& row, LogitScale scale, ScaledRange range) {
  collected_.resize(row.row.size() + 16);
  const int64_t count = kernels_->collect(row.row.data(), static_cast<int64_t>(row.row.size()),
                                          row.chunk_max.data(), scale, range, collected_.data());
  return std::span<float>(collected_).first(static_cast<size_t>(count));
}

}  // namespace quire
