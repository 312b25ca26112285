// The key under which products of linear() share one algorithm of the library.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>

#include "base/dtype.h"

namespace quire::cuda {

// Returns the number of rows that an algorithm is chosen for: small numbers exactly (each has its
// own best algorithm), large ones rounded up. Deterministic products use one algorithm for any
// number of rows, so that a row's bits do not depend on how many others there are.
inline constexpr int64_t kDeterministicRows = 256;
constexpr int64_t algorithm_rows(int64_t num_rows, bool deterministic) {
  if (deterministic) return kDeterministicRows;
  if (num_rows <= 16) return num_rows;
  if (num_rows <= 256) return (num_rows + 15) / 16 * 16;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(num_rows)));
}

struct MatmulKey {
  int64_t n = 0;
  int64_t k = 0;
  int64_t rows = 0;  // algorithm_rows()
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  DType y_type = DType::kBF16;
  bool has_bias = false;
  bool accumulates = false;
  bool deterministic = false;
  bool is_fp8 = false;  // e4m3 times e4m3, scaled per row and per output
  auto operator<=>(const MatmulKey&) const = default;
};

}  // namespace quire::cuda
