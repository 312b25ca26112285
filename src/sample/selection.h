// Finding the most likely tokens of a row without sorting it. All results are unique: ties have a
// stated order.
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

// More likely first; of equals the smaller id.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token_id < b.token_id);
}

// The `n` first tokens of `row` in the order of ranks_before, sorted; all of them when n exceeds
// the row. `out` is overwritten; its capacity is reused.
void select_top(const ScannedRow& row, int32_t n, std::vector<Candidate>& out);

// The k-th greatest value of `row`, the last that `scanner` scanned; 1 <= k <= its size. `scratch`
// is overwritten.
float kth_greatest(RowScanner& scanner, const ScannedRow& row, int32_t k,
                   std::vector<Candidate>& scratch);

struct WeightedValue {
  float value = 0;
  float weight = 0;  // >= 0
};

// The greatest t for which the items with value >= t weigh at least `target` together (the smallest
// value when even all weigh less). Reorders `items`, which must not be empty. Expected linear time.
float mass_threshold(std::span<WeightedValue> items, double target);

}  // namespace quire
