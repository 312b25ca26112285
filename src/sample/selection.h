// Finds the most likely tokens of a row without sorting it. All results are unique, because ties
// have a defined order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/cpu/sampling/row_scan.h"

namespace quire {

struct Candidate {
  float value = 0;
  TokenId token_id = 0;
};

// Orders more likely tokens first; of equals, the smaller id.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token_id < b.token_id);
}

// Writes to `out` the first `n` tokens of `row` in the order of ranks_before, or all of them if the
// row is shorter. `out` is overwritten; its capacity is reused.
void select_top(const ScannedRow& row, int32_t n, std::vector<Candidate>& out);

// Returns the k-th greatest value of `row`, which must be the last that `scanner` scanned; 1 <= k
// <= its size. `scratch` is overwritten.
float kth_greatest(RowScanner& scanner, const ScannedRow& row, int32_t k,
                   std::vector<Candidate>& scratch);

struct WeightedValue {
  float value = 0;
  float weight = 0;  // >= 0
};

// Returns the greatest t for which the items with value >= t have a total weight of at least
// `target`, or the smallest value if all items weigh less. Reorders `items`, which must not be
// empty. Takes linear time on average.
float mass_threshold(std::span<WeightedValue> items, double target);

}  // namespace quire
