// The columns of a recurrence's state, in registers while a block walks the tokens of a chain. A
// column is shared by kStateLanes neighbouring lanes: lane l has rows l, l + kStateLanes, …. In a
// block of the pool a column's rows lie one after the other.
#pragma once

#include "kernels/cuda/states/chains.h"

namespace quire::cuda {

inline constexpr int kStateLanes = 8;
inline constexpr int kStateThreads = 128;
inline constexpr int kBlockColumns = kStateThreads / kStateLanes;

template <int kRows>
struct StateColumn {
  float at[kRows];
};

QUIRE_DEVICE int state_lane() { return ptx::thread_index() % kStateLanes; }

// Returns the sum over the lanes of a column: the same bits in each of them.
QUIRE_DEVICE float column_sum(float x) {
#pragma unroll
  for (int mask = kStateLanes / 2; mask >= 1; mask /= 2) x = ptx::add(x, ptx::shuffle_xor(x, mask));
  return x;
}

// Calls f with each of the lane's rows below `num_rows`, and its number among the lane's.
template <int kRows, typename F>
QUIRE_DEVICE void for_each_row(int32_t num_rows, const F& f) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int32_t row = r * kStateLanes + state_lane();
    if (row < num_rows) f(row, r);
  }
}

// `column`: where it lies, or null: zeros.
template <int kRows>
QUIRE_DEVICE void load_column(const float* column, int32_t num_rows, StateColumn<kRows>& to) {
#pragma unroll
  for (float& x : to.at) x = 0.0f;
  if (column == nullptr) return;
  for_each_row<kRows>(num_rows, [&](int32_t row, int r) { to.at[r] = column[row]; });
}
template <int kRows>
QUIRE_DEVICE void save_column(const StateColumn<kRows>& from, int32_t num_rows, float* column) {
  for_each_row<kRows>(num_rows, [&](int32_t row, int r) { column[row] = from.at[r]; });
}

}  // namespace quire::cuda
