// Finds the smallest set of the most likely tokens that holds a given share of a row's probability.
#pragma once

#include <vector>

#include "kernels/cpu/sampling/row_scan.h"
#include "sample/selection.h"

namespace quire {

// Holds scratch rows that it reuses. Use one per thread.
class TopP {
 public:
  explicit TopP(Isa isa) : band_scanner_(isa) {}

  // Allocates the scratch memory for rows of so many logits.
  void reserve(size_t vocab_size) {
    band_scanner_.reserve(vocab_size);
    weighted_.reserve(vocab_size);
  }

  // Returns the smallest scaled logit in the smallest set of most likely tokens that holds `top_p`
  // < 1 of the probability of all tokens with a scaled logit >= `threshold`. `row` was scanned by
  // `scanner`, and its greatest scaled logit is 0.
  float cut_off(RowScanner& scanner, const ScannedRow& row, LogitScale scale, float top_p,
                float threshold);

 private:
  void gather(RowScanner& scanner, const ScannedRow& row, LogitScale scale, ScaledRange range);
  ScaledRange guess(RowScanner& scanner, const ScannedRow& row, LogitScale scale, double spare,
                    ScaledRange range);
  float resolve(std::span<const float> values, double target, ScaledRange range);

  RowScanner band_scanner_;
  std::vector<WeightedValue> weighted_;
};

}  // namespace quire
