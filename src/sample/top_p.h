// The least set of likeliest values that holds a share of a row's mass.
#pragma once

#include <vector>

#include "kernels/cpu/sampling/row_scan.h"
#include "sample/selection.h"

namespace quire {

// Holds scratch rows that it reuses. One per thread.
class TopP {
 public:
  explicit TopP(Isa isa) : band_scanner_(isa) {}

  // Takes the memory for rows of so many logits at once.
  void reserve(size_t vocab_size) {
    band_scanner_.reserve(vocab_size);
    weighted_.reserve(vocab_size);
  }

  // The scaled logit that the least set of most likely tokens, among those with scaled >=
  // `threshold`, that holds `top_p` < 1 of their mass ends with. `row`: of `scanner`, whose
  // greatest scaled logit is 0.
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
