// Non-negative least squares (Lawson and Hanson, "Solving Least Squares Problems", 1974).
#pragma once

#include <span>
#include <vector>

namespace quire {

// Coefficients x >= 0 that minimise |A x - b|, for A with one row of `num_columns` per element of
// b, row by row. Columns of zeros get 0.
std::vector<double> solve_nnls(std::span<const double> rows, std::span<const double> b,
                               size_t num_columns);

}  // namespace quire
