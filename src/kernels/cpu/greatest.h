// The greatest of each row of a product, without keeping the product.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "kernels/api/linear.h"
#include "kernels/cpu/dispatch.h"

namespace quire::cpu {

// Outputs of so many bytes are made before they are looked at: they stay in a second-level cache
// beside the activations.
inline constexpr int64_t kSlabBytes = 256 << 10;

// Columns of such a slab, in whole panels. Rows of a power of two would share cache sets.
inline int64_t slab_columns(int64_t num_rows, int64_t panel) {
  constexpr int64_t kAliased = 1024;
  const int64_t columns = std::max(panel, kSlabBytes / int64_t{sizeof(float)} / num_rows);
  const int64_t whole = columns / panel * panel;
  return whole > panel && whole % kAliased == 0 ? whole - panel : whole;
}

// Merges a row's outputs from column `first` on into what was found left of them.
inline void merge_greatest(const ElementKernels& kernels, const float* y, int64_t count,
                           int64_t first, RowGreatest& found) {
  bool all_finite = true;
  const float value = kernels.greatest(y, count, &all_finite);
  found.all_finite = found.all_finite && all_finite;
  if (found.column >= 0 && !(value > found.value)) return;
  const float* at = std::find(y, y + count, value);
  found.value = value;
  found.column = static_cast<int32_t>(first + std::min<int64_t>(at - y, count - 1));
}

// Slots are [threads, M]: one row of them per thread, whose columns ascend with it.
inline void merge_threads(RowGreatest* slots, int64_t num_rows, int num_threads) {
  for (int thread = 1; thread < num_threads; ++thread) {
    for (int64_t row = 0; row < num_rows; ++row) {
      RowGreatest& found = slots[row];
      const RowGreatest& next = slots[thread * num_rows + row];
      found.all_finite = found.all_finite && next.all_finite;
      if (next.column < 0 || (found.column >= 0 && !(next.value > found.value))) continue;
      found.value = next.value;
      found.column = next.column;
    }
  }
}

// A thread's share of a product: multiply(columns, y, y_stride) gives the outputs of some columns.
template <class Multiply>
void multiply_columns(const HostStream& stream, const LinearParams& params, WorkRange columns,
                      int64_t panel, int thread, Multiply&& multiply) {
  if (columns.begin >= columns.end) return;
  float* y = params.y;
  if (params.greatest == nullptr) return multiply(columns, y + columns.begin, params.y_stride);
  const ElementKernels& kernels = element_kernels(stream.isa());
  const int64_t slab = std::min(slab_columns(params.num_rows, panel), columns.end - columns.begin);
  float* scratch = y + params.num_rows * columns.begin;
  RowGreatest* found = params.greatest + thread * params.num_rows;
  for (int64_t first = columns.begin; first < columns.end; first += slab) {
    const int64_t end = std::min(first + slab, columns.end);
    multiply(WorkRange{first, end}, scratch, slab);
    for (int64_t row = 0; row < params.num_rows; ++row) {
      merge_greatest(kernels, scratch + row * slab, end - first, first, found[row]);
    }
  }
}

}  // namespace quire::cpu
